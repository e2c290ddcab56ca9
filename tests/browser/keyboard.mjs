// Uses the pages of a product with a keyboard and without JavaScript. Input: {base, product, token}.

import { assert, assertEqual, becomes, input, launch, open, tab } from "./chromium.mjs";

const { base, product, token } = input();

/** The element with the focus: its text, address and name, and whether the focus is visible. */
function focused() {
  const element = document.activeElement;
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  return {
    text: element.innerText?.replace(/\s+/g, " ").trim() ?? "",
    href: element.getAttribute("href"),
    name: element.getAttribute("name"),
    isSeen: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.top >= 0) || element === document.body,
  };
}

/** Presses Tab until an element that fits has the focus. Every element on the way must show its focus. */
async function tabTo(page, what, fits) {
  const passed = [];
  for (let pressed = 0; pressed < 200; pressed += 1) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate(focused);
    assert(now.isSeen, "the focus is not seen on", now);
    if (fits(now)) return now;
    passed.push(now.text || now.name);
  }
  throw new Error(`${what} cannot be reached with the keyboard: ${passed}`);
}

async function enter(page) {
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
}

/** Replaces the text of the field that has the focus. */
async function retype(page, value) {
  await page.keyboard.down("Control");
  await page.keyboard.press("KeyA");
  await page.keyboard.up("Control");
  await page.keyboard.type(value);
}

const path = (page) => new URL(page.url()).pathname + new URL(page.url()).search;

async function browse(browser) {
  const page = await tab(browser);
  await open(page, base + product);
  const skip = await tabTo(page, "the first stop", () => true);
  assertEqual(skip.text, "Skip to the content", "the first stop");
  await page.keyboard.press("Enter");
  await becomes(page, () => document.querySelector(":target")?.id, skip.href.slice(1), "the target of the skip link");
  await page.keyboard.press("Tab");
  await becomes(page, () => document.activeElement.closest("main") !== null, true, "whether the skip link skips");

  await open(page, base + product);
  for (const [what, link, leadsTo] of [
    ["the filter by rating", /^4 out of 5/, "/~/4"],
    ["the filter by language", /^English/, "/en/4"],
    ["the chip", /^Remove Rating: 4/, "/en"],
    ["the other order", /^Show the oldest first$/, "/en?order=oldest"],
    ["the order of before", /^Show the newest first$/, "/en"],
    ["the next page", /^Older/, "/en?page=15"],
    ["the first page", /^Newest$/, "/en"],
  ]) {
    await tabTo(page, what, ({ text }) => link.test(text));
    await enter(page);
    assertEqual(path(page), product + leadsTo, what);
  }
  const link = await tabTo(page, "a permalink", ({ href }) => href?.startsWith("/comments/"));
  await enter(page);
  const target = await page.evaluate(() => document.querySelector("article:target")?.id);
  assertEqual(target, `comment-${link.href.split("/").pop()}`, "where the permalink leads");
  assertEqual(page.complaints, [], "what the browser says");
  await page.close();
}

async function write(browser) {
  const page = await tab(browser);
  await open(page, base + product);
  await tabTo(page, "the form", ({ text }) => text === "Write a comment");
  await enter(page);
  const body = "First line\n  second line with <b>no markup</b>";
  const fill = async (values) => {
    for (const [name, value] of Object.entries(values)) {
      await tabTo(page, name, (now) => now.name === name);
      if (name === "rating") await page.keyboard.press("ArrowRight");
      else await retype(page, value);
    }
    await tabTo(page, "the button", ({ text }) => text === "Post the comment");
    await enter(page);
  };
  // Make a mistake first: the form keeps all fields but the token.
  await fill({ rating: "2", language: "e_n", title: "By keyboard", body, author: "Ann O'Nymous", token });
  const alert = await page.evaluate(() => document.querySelector("[role=alert]")?.innerText);
  assert(alert?.startsWith("Please correct: Language.") && alert.includes("e_n"), "the alert about the mistake says", alert);
  const typed = await page.evaluate(() => {
    const value = (name) => document.querySelector(`[name=${name}]`).value;
    return [document.querySelector("[name=rating]:checked")?.value, value("title"), value("body"), value("author"), value("token")];
  });
  assertEqual(typed, ["2", "By keyboard", body, "Ann O'Nymous", ""], "what is left in the form");
  await becomes(page, () => document.activeElement.getAttribute("name"), "language", "the focus after a mistake");
  await retype(page, "en");
  await fill({ token });
  assertEqual(path(page), product, "where the form leads");
  const shown = await page.evaluate(() => {
    const comment = document.querySelector("article:target");
    return comment && [comment.querySelector("h3").innerText, comment.querySelector(".text").textContent, comment.querySelector("bdi").innerText];
  });
  assertEqual(shown, ["By keyboard", body, "Ann O'Nymous"], "the new comment");
  await page.close();
}

const browser = await launch();
try {
  await browse(browser);
  await write(browser);
} finally {
  await browser.close();
}
