// Checks pages in a real browser. Input: {base, pages: [{name, path, status, rtl, product}], screenshots}. Fails on the
// first page that is not accessible, does not fit, loads forbidden content, causes another complaint of the browser, or
// has structured data that search engines refuse. At the end, checks the HTML of all pages and their style sheet.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import Validator from "@adobe/structured-data-validator";
import WebAutoExtractor from "@marbec/web-auto-extractor";
import { violations } from "./axe.mjs";
import { complaints } from "./checker.mjs";
import { assert, assertEqual, input, launch, open, tab } from "./chromium.mjs";

/** A light phone and a dark desktop. Screenshots also take a dark phone, a light tablet and a light desktop. */
const VIEWS = [[360, false], [1280, true]];
const FURTHER_VIEWS = [[360, true], [768, false], [1280, false]];

/**
 * A page wider than the window, elements that are empty or outside it, comments above 3,000 px, long texts that are shown
 * whole, others that are not, and repeated ids.
 */
function oddities() {
  const odd = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) odd.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  for (const element of document.body.querySelectorAll("*")) {
    const isVoid = /^(img|input|textarea|svg|rect|br|hr)$/.test(element.localName);
    if (!isVoid && element.childNodes.length === 0) odd.push(`empty: ${element.outerHTML}`);
    const box = element.getBoundingClientRect();
    const isShown = box.width > 1 && box.height > 1 && element.checkVisibility() && !element.closest(".hidden, .skip");
    if (isShown && (box.right > width + 1 || box.left < -1)) odd.push(`outside: ${element.outerHTML.slice(0, 200)}`);
  }
  for (const article of document.querySelectorAll("article")) {
    const { height } = article.getBoundingClientRect();
    if (height > 3000) odd.push(`${height} px tall: ${article.outerHTML.slice(0, 200)}`);
    const { overflowX, overflowY } = getComputedStyle(article);
    if (overflowX !== "clip" || overflowY !== "clip") odd.push(`may draw outside its box: ${article.outerHTML.slice(0, 200)}`);
    for (const text of article.querySelectorAll(":scope > .text")) {
      const isLong = text.nextElementSibling?.matches(".rest") && text.nextElementSibling.checkVisibility();
      const isCut = text.scrollHeight > text.clientHeight + 1;
      if (isCut !== Boolean(isLong)) odd.push(`${isCut ? "is cut" : "is whole"}: ${article.outerHTML.slice(0, 200)}`);
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  odd.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `twice: ${id}`));
  return odd;
}

/** The long texts that are still cut after a reader has opened them. */
function cutWhenOpened() {
  const rests = [...document.querySelectorAll(".rest")].filter((rest) => rest.checkVisibility());
  for (const rest of rests) rest.open = true;
  const cut = rests.map((rest) => rest.previousElementSibling).filter((text) => text.scrollHeight > text.clientHeight + 1);
  for (const rest of rests) rest.open = false;
  return cut.map((text) => text.textContent.slice(0, 200));
}

/**
 * What is wrong when fonts draw every character as wide as a line. No font of a test machine has such characters, so a space
 * after each of them takes their place. What does not fit can be scrolled.
 */
function drawnLarge() {
  const odd = [];
  const texts = document.querySelectorAll("article > .text:not(:has(+ .rest))");
  for (const text of texts) text.style.letterSpacing = "20em";
  for (const { offsetHeight, scrollHeight, clientHeight } of texts) {
    if (offsetHeight > 2100) odd.push(`a text takes ${offsetHeight} px`);
    if (scrollHeight > clientHeight + 1 && clientHeight < 1000) odd.push(`a text scrolls in ${clientHeight} px`);
  }
  if (![...texts].some((text) => text.scrollHeight > text.clientHeight + 1)) odd.push("no text is drawn large enough for this");
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) odd.push("the page is too wide");
  return odd;
}

/** The directions of the texts of right-to-left comments. */
function directions() {
  return [...document.querySelectorAll("article[dir=rtl] .text")].map((text) => getComputedStyle(text).direction);
}

async function validate(html, name) {
  const found = new WebAutoExtractor({ addLocation: true, embedSource: ["rdfa", "microdata"] }).parse(html);
  const validator = new Validator();
  // Validate only the search result for reviews of products. The other one, for shops, requires an offer and a picture,
  // but a page of comments sells nothing.
  validator.registeredHandlers.Product = validator.registeredHandlers.Product.slice(0, 1);
  const issues = await validator.validate(found);
  const errors = issues.filter(({ severity }) => severity === "ERROR").map(({ issueMessage, path }) => [issueMessage, path]);
  assertEqual(errors, [], `structured data of ${name}`);
  return Object.keys(found.jsonld);
}

/** The text of the page's style sheet. */
async function styleSheet(page) {
  const response = await fetch(await page.evaluate(() => document.querySelector("link[rel=stylesheet]").href));
  return response.text();
}

const { base, pages, screenshots } = input();
const browser = await launch();
const documents = [];
try {
  if (screenshots) mkdirSync(screenshots, { recursive: true });
  for (const { name, path, status, rtl, product } of pages) {
    for (const [width, dark] of screenshots ? [...VIEWS, ...FURTHER_VIEWS] : VIEWS) {
      const page = await tab(browser, { width, dark });
      const response = await open(page, base + path, status);
      const where = `${name} at ${width} px, ${dark ? "dark" : "light"}`;
      if (screenshots) {
        const file = join(screenshots, `${name}-${width}-${dark ? "dark" : "light"}.png`);
        await page.screenshot({ path: file, fullPage: true });
      }
      assertEqual(await page.evaluate(oddities), [], where);
      assertEqual(await page.evaluate(cutWhenOpened), [], where);
      assertEqual(await violations(page), [], where);
      if (rtl) {
        const found = await page.evaluate(directions);
        assert(found.length > 0 && found.every((direction) => direction === "rtl"), where, found);
      }
      if (width === VIEWS[0][0] && !dark) {
        const html = await response.text();
        documents.push([`${name}.html`, html]);
        if (documents.length === 1) documents.push(["style.css", await styleSheet(page)]);
        assertEqual(await validate(html, name), product ? ["Product"] : [], `types on ${name}`);
      }
      assertEqual(page.complaints, [], where);
      if (name === "hostile") assertEqual(await page.evaluate(drawnLarge), [], where);
      await page.close();
    }
  }
} finally {
  await browser.close();
}
assertEqual(complaints(documents), [], "what the HTML checker finds");
