// Judges the accessibility of pages with axe.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** All default rules, up to WCAG 2.2 AA and best practices, and the size of targets (24 px), which is off by default. */
const AXE = { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } };

/** The violations that axe finds in a page, or within an element. Axe needs JavaScript; a page of ours does not. */
export async function violations(page, within = "html") {
  const isEnabled = page.isJavaScriptEnabled();
  await page.setJavaScriptEnabled(true);
  await page.evaluate(axe);
  // Axe would fetch the style sheet of another site.
  const options = { ...AXE, preload: within === "html" };
  const { violations } = await page.evaluate((within, options) => globalThis.axe.run(within, options), within, options);
  await page.setJavaScriptEnabled(isEnabled);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
}
