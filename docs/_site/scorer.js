// The order of search results: titles, guides and concepts first, then the reference, records of work last.
var Scorer = {
  score: ([page, , anchor, , score, , kind]) => {
    const guide = /^(index$|tutorials\/|how-to\/|concepts\/)/.test(page);
    const record = /^(changelog|contributing|results\/)/.test(page);
    if (kind === "title") score += page.startsWith("reference/") ? 8 : anchor ? 20 : 25;
    if (kind === "index") score = Math.min(score, 26); // the glossary, which would come before all titles
    if (kind === "text" && page.startsWith("reference/api/")) score -= 3;
    return score + (guide ? 10 : record ? -3 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
