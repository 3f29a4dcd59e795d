// Pictures shrink to the page on wide screens. On narrow ones they keep their size and scroll, so that one can read them.
const initialize = mermaid.initialize;
mermaid.initialize = (configuration) => {
  const fits = { useMaxWidth: window.innerWidth > 800 };
  const sequence = { ...configuration.sequence, ...fits };
  initialize({ ...configuration, flowchart: fits, state: fits, gantt: fits, sequence });
};
