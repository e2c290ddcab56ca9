// Makes pictures of a page for the README. Input: {url, folder}.

import { join } from "node:path";
import { input, launch, open, tab } from "./chromium.mjs";

const { url, folder } = input();
const browser = await launch();
try {
  for (const dark of [false, true]) {
    const page = await tab(browser, { width: 1120, dark });
    await open(page, url);
    const path = join(folder, `page-${dark ? "dark" : "light"}.webp`);
    await page.screenshot({ path, type: "webp", quality: 85, clip: { x: 0, y: 0, width: 1120, height: 860 } });
    await page.close();
  }
} finally {
  await browser.close();
}
