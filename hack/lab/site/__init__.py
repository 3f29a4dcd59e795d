"""The site of the documentation: MkDocs with Material, built from the pages in docs and hack/design."""
