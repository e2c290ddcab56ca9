// Measures pages with Lighthouse at phone size. Input: {base, pages: [path], categories: [name], dark, least:
// {name: score}}. Prints a line of JSON per page with its scores and the audits that cost points. Exits with 1 if a
// score is below `least`.

import lighthouse from "lighthouse";
import { input, launch } from "./chromium.mjs";

const { base, pages, categories, dark, least } = input();
const browser = await launch();
try {
  for (const path of pages) {
    const page = await browser.newPage();
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
    // Lighthouse's defaults: a phone of 412 px, a slow processor and a slow network.
    const { lhr } = await lighthouse(base + path, { onlyCategories: categories, logLevel: "error" }, undefined, page);
    const scores = Object.fromEntries(categories.map((name) => [name, Math.round(lhr.categories[name].score * 100)]));
    const lost = Object.values(lhr.categories).flatMap(({ auditRefs }) =>
      auditRefs
        .filter(({ id, weight }) => weight > 0 && lhr.audits[id].score !== null && lhr.audits[id].score < 1)
        .map(({ id }) => `${id}: ${lhr.audits[id].explanation ?? lhr.audits[id].displayValue ?? lhr.audits[id].title} ${JSON.stringify(lhr.audits[id].details?.items ?? []).slice(0, 500)}`),
    );
    console.log(JSON.stringify({ path, scores, lost, error: lhr.runtimeError?.message }));
    const short = Object.entries(least ?? {}).filter(([name, score]) => !(scores[name] >= score));
    if (short.length > 0) process.exitCode = 1;
    await page.close();
  }
} finally {
  await browser.close();
}
