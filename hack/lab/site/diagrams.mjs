// Parses Mermaid diagrams, a JSON object of name and text on stdin, and prints the errors as JSON of name and message.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Node resolves imports from this file's folder, but the packages are in the working folder.
const require = createRequire(`${process.cwd()}/`);
const { JSDOM } = require("jsdom");
const { window } = new JSDOM("");
Object.assign(globalThis, { window, document: window.document });
const { default: mermaid } = await import(pathToFileURL(`${process.cwd()}/node_modules/mermaid/dist/mermaid.core.mjs`));

const errors = {};
for (const [name, text] of Object.entries(JSON.parse(readFileSync(0)))) {
  try {
    await mermaid.parse(text);
  } catch (error) {
    errors[name] = error.message;
  }
}
console.log(JSON.stringify(errors));
