// Looks at a page of a shop into which its web server has put a fragment. Input: {url, screenshots}.

import { join } from "node:path";
import { violations } from "./axe.mjs";
import { assert, assertEqual, input, launch, open, tab } from "./chromium.mjs";

const { url, screenshots } = input();

/** How the shop's own parts look, and those of the fragment. */
function looks() {
  const of = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
  return {
    body: [of("body", "maxWidth"), of("body", "backgroundColor")],
    link: of("body > a", "color"),
    comments: document.querySelectorAll(".pagemark article").length,
    article: of(".pagemark article", "borderTopStyle"),
    hidden: of(".pagemark .hidden", "width"),
  };
}

const browser = await launch();
try {
  for (const [width, dark] of [[360, false], [1280, true]]) {
    const page = await tab(browser, { width, dark });
    await open(page, url);
    const where = `${width} px, ${dark ? "dark" : "light"}`;
    if (screenshots) await page.screenshot({ path: join(screenshots, `fragment-${width}.png`) });
    const { comments, ...look } = await page.evaluate(looks);
    assert(comments > 0, "the shop's page shows no comments");
    const shop = { body: ["none", "rgb(255, 255, 255)"], link: "rgb(204, 0, 0)" };
    assertEqual(look, { ...shop, article: "solid", hidden: "1px" }, where);
    assertEqual(await violations(page, ".pagemark"), [], where);
    assertEqual(page.complaints, [], where);
    await page.close();
  }
} finally {
  await browser.close();
}
