"use strict";

// Draws every chart of a page from the JSON beside it, in the colours of the style sheet.
(() => {
  // Where a chart stands decides: a part of a page may have a scheme of its own.
  const readColour = (place, name) => {
    const probe = document.createElement("span");
    probe.className = `colour--${name}`;
    probe.hidden = true;
    place.parentElement.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };

  const colourTrace = (place, trace) => {
    const color = readColour(place, trace.meta?.colour ?? "accent");
    const bars = {};
    for (const axis of ["error_x", "error_y"]) {
      if (trace[axis]) {
        bars[axis] = { ...trace[axis], color };
      }
    }
    return { ...trace, ...bars, marker: { ...trace.marker, color } };
  };

  const applyColours = (place, figure) => {
    const ink = readColour(place, "ink");
    const rule = readColour(place, "rule");
    const layout = { ...figure.layout };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: ink, family: getComputedStyle(document.body).fontFamily, size: 14 };
    layout.shapes = (layout.shapes ?? []).map((shape) => ({ ...shape, line: { ...shape.line, color: ink, width: 1.5 } }));
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = { ...layout[axis], gridcolor: rule, linecolor: rule };
    }
    return { data: figure.data.map((trace) => colourTrace(place, trace)), layout };
  };

  const draw = () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      place.hidden = false;
      place.tabIndex = 0;
      const figure = JSON.parse(document.getElementById(place.dataset.chart).textContent);
      const { data, layout } = applyColours(place, figure);
      window.Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
    }
  };

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
