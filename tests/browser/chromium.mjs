// A headless Chromium, and its complaints about the pages that it shows.

import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import puppeteer from "puppeteer-core";

/** Time limit of a step, in milliseconds. Only a browser that hangs exceeds it. */
const STEP_MAX_MS = 120_000;

/** Finds the program, by the same names as scripts/ensure-chromium.sh. */
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
  // Chromium refuses its sandbox as root. It is not needed, because it opens only our pages.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return puppeteer.launch({ executablePath: program(), args: [...args, "--disable-dev-shm-usage", ...more], timeout: STEP_MAX_MS });
}

/** The input of the script: JSON on standard input. */
export function input() {
  return JSON.parse(readFileSync(0, "utf8"));
}

export function assert(condition, ...what) {
  if (!condition) throw new Error(what.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join(" "));
}

export function assertEqual(actual, expected, what) {
  assert(JSON.stringify(actual) === JSON.stringify(expected), what, "is", actual, "instead of", expected);
}

/** Waits until a page reads as `expected`. A browser moves the focus when it draws, which may be after the page has loaded. */
export async function becomes(page, read, expected, what) {
  const stop = Date.now() + STEP_MAX_MS;
  let actual = await page.evaluate(read);
  while (actual !== expected && Date.now() < stop) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    actual = await page.evaluate(read);
  }
  assertEqual(actual, expected, what);
}

/** A tab without JavaScript. `complaints` collects the browser's complaints. */
export async function tab(browser, { width = 1280, dark = false } = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.setDefaultTimeout(STEP_MAX_MS);
  await page.setViewport({ width, height: 900, deviceScaleFactor: 1, hasTouch: width < 600, isMobile: width < 600 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  await page.setJavaScriptEnabled(false);
  const complain = (what) => page.complaints.push(what);
  page.on("dialog", (dialog) => complain(`a dialog: ${dialog.message()}`));
  page.on("requestfailed", (request) => complain(`${request.url()}: ${request.failure()?.errorText}`));
  const client = await page.createCDPSession();
  await client.send("Log.enable");
  client.on("Log.entryAdded", ({ entry }) => {
    // Chromium also logs the status of a page that answers 404. That is not a fault of the page.
    const isStatus = entry.source === "network" && entry.url === page.asked;
    if (!isStatus) complain(`${entry.source}: ${entry.text} (${entry.url})`);
  });
  await client.send("Audits.enable");
  client.on("Audits.issueAdded", ({ issue }) => complain(`${issue.code} ${JSON.stringify(issue.details)}`));
  return page;
}

/** Loads a page. On a busy machine the browser has missed the end of a load; a server that hangs fails the second time, too. */
async function load(page, url) {
  try {
    return await page.goto(url, { waitUntil: "load", timeout: STEP_MAX_MS / 2 });
  } catch (error) {
    if (error.name !== "TimeoutError") throw error;
    page.complaints.length = 0;
    return page.goto(url, { waitUntil: "load" });
  }
}

/** Opens a page and asserts its status, and that the browser has no complaints. */
export async function open(page, url, status = 200) {
  page.asked = url;
  const response = await load(page, url);
  assertEqual(response.status(), status, url);
  assertEqual(page.complaints, [], `what the browser says of ${url}`);
  return response;
}
