"""Controllers of elected pods: delegates, status, live changes, events, orphans."""
