// Measures pages with Lighthouse at phone size: reads {base, pages: [path], categories: [name], dark, least: {name: score}}
// and prints a line of JSON with the scores of each, and what took points away. Ends with 1 when one is below the least.

import lighthouse from "lighthouse";
import { input, launch } from "./chromium.mjs";

const { base, pages, categories, dark, least } = input();
const browser = await launch();
try {
  for (const path of pages) {
    const page = await browser.newPage();
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
    // Its defaults: a phone of 412 px, a slow processor and a slow network.
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
