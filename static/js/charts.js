"use strict";

// Draws every chart of a page from the JSON beside it, in the colours of the style sheet.
(() => {
  const readColour = (name) => {
    const probe = document.createElement("span");
    probe.className = `colour--${name}`;
    probe.hidden = true;
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };

  const applyColours = (figure) => {
    const ink = readColour("ink");
    const rule = readColour("rule");
    const accent = readColour("accent");
    const layout = { ...figure.layout };
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: ink, family: getComputedStyle(document.body).fontFamily, size: 14 };
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = { ...layout[axis], gridcolor: rule, linecolor: rule };
    }
    const data = figure.data.map((trace) => ({
      ...trace,
      marker: { ...trace.marker, color: accent },
      error_x: { ...trace.error_x, color: accent },
    }));
    return { data, layout };
  };

  const draw = () => {
    for (const place of document.querySelectorAll("[data-chart]")) {
      place.hidden = false;
      const figure = JSON.parse(document.getElementById(place.dataset.chart).textContent);
      const { data, layout } = applyColours(figure);
      window.Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
    }
  };

  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
