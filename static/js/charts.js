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

  // A line of so many characters leaves a narrow chart its room.
  const wrap = (text, characters) => {
    const lines = [];
    for (const word of text.split(" ")) {
      const last = lines.at(-1);
      if (last !== undefined && `${last} ${word}`.length <= characters) {
        lines[lines.length - 1] = `${last} ${word}`;
      } else {
        lines.push(word);
      }
    }
    return lines.join("<br>");
  };

  const fitNarrow = (layout) => {
    layout.font.size = 12;
    layout.margin = { ...layout.margin, r: 28 };
    for (const axis of [layout.xaxis, layout.yaxis]) {
      axis.tickangle = 0;
      if (axis.ticktext) {
        axis.ticktext = axis.ticktext.map((text) => wrap(text, 18));
      }
      if (axis.title?.text) {
        axis.title = { ...axis.title, text: wrap(axis.title.text, 22) };
      }
    }
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
    if (place.clientWidth < 480) {
      fitNarrow(layout);
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
  // On paper the pages are light, and as wide as the paper.
  for (const query of ["(prefers-color-scheme: dark)", "print"]) {
    window.matchMedia(query).addEventListener("change", draw);
  }
})();
