// Draws the charts of the page, in its colours and no wider than it is.
(function () {
  "use strict";
  const DARK = {
    background: "transparent",
    axis: { labelColor: "#c3c9d1", titleColor: "#e6e9ed", gridColor: "#3d4450", domainColor: "#8b95a3", tickColor: "#8b95a3" },
    legend: { labelColor: "#c3c9d1", titleColor: "#e6e9ed" },
    title: { color: "#e6e9ed", subtitleColor: "#c3c9d1" },
    header: { labelColor: "#c3c9d1", titleColor: "#e6e9ed" },
    text: { color: "#e6e9ed" },
  };

  function merged(base, more) {
    const result = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = value && typeof value === "object" && base[key] && typeof base[key] === "object";
      result[key] = both ? merged(base[key], value) : value;
    }
    return result;
  }

  function fitted(place, room) {
    const spec = JSON.parse(place.dataset.spec);
    const dark = document.documentElement.dataset.theme === "dark";
    spec.config = merged(spec.config || {}, dark ? DARK : { background: "transparent" });
    if (typeof spec.width === "number" && spec.width + 90 > room) {
      spec.width = room;
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
    return { spec, dark };
  }

  function draw(place) {
    const room = place.clientWidth;
    const { spec, dark } = fitted(place, room);
    const form = JSON.stringify([dark, room]);
    if (place.dataset.form === form) return;
    place.dataset.form = form;
    vegaEmbed(place, spec, { renderer: "svg", actions: false, tooltip: { theme: dark ? "dark" : "light" } })
      .then(() => { place.dataset.drawn = "yes"; })
      .catch((fault) => {
        console.error(fault);
        place.textContent = "This chart could not be drawn: " + fault.message;
      });
  }

  const places = Array.from(document.querySelectorAll(".vega-chart"));
  for (const place of places) place.dataset.spec = place.querySelector("script").textContent;
  const all = () => places.forEach(draw);
  all();
  new MutationObserver(all).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(all, 150); });
})();
