"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const style = getComputedStyle(document.documentElement);
const colour = (name) => style.getPropertyValue(name).trim();
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

function coloured(trace) {
  const own = colour(`--c${trace.color % 6}`);
  return { ...trace, marker: { color: own } };
}

function axis(given) {
  return { gridcolor: colour("--line"), zerolinecolor: colour("--line"), linecolor: colour("--line"),
    automargin: true, fixedrange: false, ...given };
}

function draw({ id, data, layout }) {
  const dressed = {
    ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("--soft") },
    margin: { l: 8, r: 8, t: 8, b: 8 }, hovermode: data[0].orientation === "h" ? "closest" : "x unified",
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--text") } },
    legend: { orientation: "h", y: -0.2, font: { color: colour("--text") } }, bargap: 0.25,
    showlegend: layout.showlegend ?? true, transition: { duration: calm ? 0 : 150 },
    xaxis: axis(layout.xaxis), yaxis: axis({ ...layout.yaxis, tickfont: { color: colour("--text") } }),
  };
  Plotly.react(id, data.map(coloured), dressed, { responsive: true, displayModeBar: false });
}

const drawAll = () => figures.forEach(draw);
drawAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
