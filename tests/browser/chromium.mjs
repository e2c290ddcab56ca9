// A headless Chromium, and what is the matter with the pages that it shows.

import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import puppeteer from "puppeteer-core";

/** The program: the same that scripts/ensure-chromium.sh looks for. */
function program() {
  const named = process.env.PAGEMARK_CHROMIUM;
  const names = named ? [named] : ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
  const folders = ["", ...(process.env.PATH ?? "").split(delimiter)];
  // macOS keeps programs elsewhere.
  names.push("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome");
  for (const name of names) {
    const found = folders.map((folder) => join(folder, name)).find((path) => path.includes("/") && existsSync(path));
    if (found) return found;
  }
  throw new Error("no Chromium was found: scripts/ensure-chromium.sh says what to install");
}

export function launch(more = []) {
  // As root, Chromium has no sandbox; the pages are our own.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return puppeteer.launch({ executablePath: program(), args: [...args, "--disable-dev-shm-usage", ...more], timeout: 60_000 });
}

/** What the test says, as JSON on standard input. */
export function input() {
  return JSON.parse(readFileSync(0, "utf8"));
}

export function assert(condition, ...what) {
  if (!condition) throw new Error(what.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" "));
}

export function assertEqual(actual, expected, what) {
  assert(JSON.stringify(actual) === JSON.stringify(expected), what, "is", actual, "instead of", expected);
}

/** A tab without JavaScript. Whatever the browser complains about ends up in `complaints`. */
export async function tab(browser, { width = 1280, dark = false } = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.setDefaultTimeout(20_000);
  await page.setViewport({ width, height: 900, deviceScaleFactor: 1, hasTouch: width < 600, isMobile: width < 600 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(false);
  const complain = (what) => page.complaints.push(what);
  page.on("dialog", (dialog) => complain(`a dialog: ${dialog.message()}`));
  page.on("requestfailed", (request) => complain(`${request.url()}: ${request.failure()?.errorText}`));
  const client = await page.createCDPSession();
  await client.send("Log.enable");
  client.on("Log.entryAdded", ({ entry }) => {
    // A page that is not found is told so; that is no mistake of its.
    const isStatus = entry.source === "network" && entry.url === page.asked;
    if (!isStatus) complain(`${entry.source}: ${entry.text} (${entry.url})`);
  });
  await client.send("Audits.enable");
  client.on("Audits.issueAdded", ({ issue }) => complain(`${issue.code} ${JSON.stringify(issue.details)}`));
  return page;
}

/** Goes to a page and asserts its status, and that the browser has nothing to complain about. */
export async function open(page, url, status = 200) {
  page.asked = url;
  const response = await page.goto(url, { waitUntil: "load" });
  assertEqual(response.status(), status, url);
  assertEqual(page.complaints, [], `what the browser says of ${url}`);
  return response;
}
