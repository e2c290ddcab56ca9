// Does to the web component what frameworks do to elements. Input: {base, products}, with the paths of two products' pages.

import { assert, assertEqual, becomes, input, launch } from "./chromium.mjs";

const { base, products } = input();
const SHOP = "http://shop.example/";
const [first, second] = products.map((path) => `${base}/fragment${path}`);
const POLICY = `require-trusted-types-for 'script'; trusted-types pagemark-comments`;

const element = `<pagemark-comments src="${first}"><a href="${base}">Comments</a></pagemark-comments>`;
const script = `<script type="module" src="${base}/static/pagemark-comments.js"></script>`;

/** A tab with a page of the shop, which has this body. It counts what the elements ask for. */
async function open(browser, body, { address = SHOP, policy = POLICY } = {}) {
  const page = await browser.newPage();
  page.complaints = [];
  page.asked = [];
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const { hostname, pathname } = new URL(request.url());
    const isShop = hostname === "shop.example";
    const isWanted = pathname.includes("/comments") || (isShop && !request.isNavigationRequest() && pathname !== "/fragment.css");
    if (isWanted) page.asked.push(pathname.replace(/^\/fragment/, "") + new URL(request.url()).search);
    // Like many shops, this one answers every address with a page.
    const html = `<!doctype html><html lang="en"><head><title>Shop</title><link rel="icon" href="data:,"></head><body>${body}<p class="listing">Shop</p></body></html>`;
    const headers = { "Content-Security-Policy": policy };
    if (isShop) request.respond({ contentType: "text/html", headers, body: html });
    else request.continue();
  });
  await page.goto(address, { waitUntil: "load" });
  await page.evaluate(`globalThis.create = (src) => {
    const made = document.createElement("pagemark-comments");
    if (src) made.setAttribute("src", src);
    made.append(Object.assign(document.createElement("a"), { href: "/all", textContent: "Comments" }));
    return made;
  }`);
  return page;
}

/** What the first element shows: the path of the product that its list is of; "link"; or something else, as text. */
function shows() {
  const shown = document.querySelector("pagemark-comments");
  const list = shown?.shadowRoot?.querySelector("section");
  if (!list || list.ariaBusy === "true") return "nothing yet";
  if (list.querySelector(":scope > slot")) return shown.querySelector("a").checkVisibility() ? "link" : "no link";
  return new URL(list.querySelector(".order a")?.href ?? "none:").pathname;
}

const asked = (path, which = "") => path.slice(`${base}/fragment`.length) + which;

/** A tab where the framework has shown `from`, after which it does `change`, a script in the page. */
async function changes(browser, name, { body = element + script, from = products[0], address, policy, change, to, asks }) {
  const page = await open(browser, body, { address, policy });
  if (from) await becomes(page, shows, from, `${name}, at first`);
  page.asked.length = 0;
  await page.evaluate(change);
  await becomes(page, shows, to, name);
  // A second request would be under way by now.
  await page.evaluate(`new Promise((done) => requestAnimationFrame(() => setTimeout(done)))`);
  assertEqual(page.asked, asks, `what is asked for: ${name}`);
  assertEqual(page.complaints, [], `what the browser says: ${name}`);
  return page;
}

const [kettle, toaster] = products;
const one = `document.querySelector("pagemark-comments")`;
const other = JSON.stringify(second);
const empty = { body: `<main></main>${script}`, from: null };

/** What happens to an element, by who does it. */
const CASES = {
  "React changes the attribute": { change: `${one}.setAttribute("src", ${other})`, to: toaster, asks: [asked(second)] },
  "React's strict mode takes it out and puts it back": {
    change: `{ const shown = ${one}, parent = shown.parentNode; shown.remove(); parent.prepend(shown); shown.remove(); parent.prepend(shown); }`,
    to: kettle, asks: [],
  },
  "React renders the same again": { change: `${one}.setAttribute("src", ${one}.getAttribute("src"))`, to: kettle, asks: [] },
  "React 19 and Angular set the property": { change: `${one}.src = ${other}`, to: toaster, asks: [asked(second)] },
  "Vue creates it, sets attributes, then inserts": {
    ...empty, change: `document.querySelector("main").append(create(${other}))`, to: toaster, asks: [asked(second)],
  },
  "Vue inserts a new key before it removes the old": {
    change: `${one}.before(create(${other})); document.querySelectorAll("pagemark-comments")[1].remove()`, to: toaster, asks: [asked(second)],
  },
  "Vue keeps it alive elsewhere, changed": {
    change: `{ const kept = ${one}; kept.remove(); kept.setAttribute("src", ${other}); setTimeout(() => document.body.append(kept), 50); }`,
    to: toaster, asks: [asked(second)],
  },
  "Angular and Lit insert, then set attributes": {
    ...empty, change: `{ const made = create(); document.querySelector("main").append(made); setTimeout(() => made.setAttribute("src", ${other}), 50); }`,
    to: toaster, asks: [asked(second)],
  },
  "Lit clears the attribute and sets it again": {
    change: `${one}.removeAttribute("src"); ${one}.setAttribute("src", ""); ${one}.setAttribute("src", ${other})`, to: toaster, asks: [asked(second)],
  },
  "Lit sets a property before the element is defined": {
    body: `<main></main>`, from: null, policy: "",
    change: `{ const made = create(); made.src = ${other}; document.querySelector("main").append(made);
      document.body.append(Object.assign(document.createElement("script"), { type: "module", src: "${base}/static/pagemark-comments.js" })); }`,
    to: toaster, asks: [asked(second)],
  },
  "a template has no value yet": { change: `${one}.setAttribute("src", "{{ address }}")`, to: "link", asks: [] },
  "an address is empty": { change: `${one}.src = ""`, to: "link", asks: [] },
  "an address is gone": { change: `${one}.src = null`, to: "link", asks: [] },
  "an address is none": { change: `${one}.src = "http://"`, to: "link", asks: [] },
  "an address is the page's own": { change: `${one}.src = "${base}${kettle}"`, to: "link", asks: [] },
  "the shop answers every address with its page": { change: `${one}.src = "/fragment/product/x/comments"`, to: "link", asks: ["/product/x/comments"] },
  "a product has no comments": {
    change: `${one}.src = "${base}/fragment/product/none/comments"`, to: "link", asks: ["/product/none/comments"],
  },
  "Turbo restores a clone": { change: `${one}.replaceWith(${one}.cloneNode(true))`, to: kettle, asks: [asked(first)] },
  "Turbo and idiomorph morph it": {
    change: `${one}.setAttribute("src", ${other}); ${one}.replaceChildren(Object.assign(document.createElement("a"), { href: "/all", textContent: "All" }))`,
    to: toaster, asks: [asked(second)],
  },
  "Turbo runs the script again": {
    policy: "",
    change: `document.body.append(Object.assign(document.createElement("script"), { src: "${base}/static/pagemark-comments.js?again" }))`,
    to: kettle, asks: [],
  },
  "htmx swaps a part of the page": {
    change: `{ const part = create(${other}); document.body.replaceChildren(part); }`, to: toaster, asks: [asked(second)],
  },
  "htmx moves it": { change: `document.body.append(document.body.removeChild(${one}))`, to: kettle, asks: [] },
  "three products in one task": {
    change: `${one}.src = ${other}; ${one}.src = "${first}/en"; ${one}.src = ${other}`, to: toaster, asks: [asked(second)],
  },
  "a product changes while the list of another is on its way": {
    change: `${one}.src = "${first}/en"; setTimeout(() => { ${one}.src = ${other}; })`, to: toaster, asks: [asked(first, "/en"), asked(second)],
  },
  "a router leads from page 1 of a product to another one": {
    address: `${SHOP}?comments=${encodeURIComponent("?page=1")}`,
    change: `history.pushState(null, "", "/toaster"); ${one}.src = ${other}`, to: toaster, asks: [asked(second)],
  },
  "a product changes, and the page's address names a list of the one before": {
    address: `${SHOP}?size=2&comments=${encodeURIComponent("?page=1")}`,
    change: `${one}.src = ${other}`, to: toaster, asks: [asked(second)],
  },
};

/** The element shows only a list or the link while the next list is on its way. */
async function showsNoOldList(browser) {
  const page = await open(browser, element + script);
  await becomes(page, shows, kettle, "the first list");
  const between = `(async () => { ${one}.src = ${other}; await null; await null; return ${one}.shadowRoot.querySelector("section").innerHTML; })()`;
  assertEqual(await page.evaluate(between), "<slot></slot>", "what is shown between two products");
  await page.close();
}

/** Back to a product shows the page of its list that the reader came from, and asks for nothing else. */
async function goBack(browser) {
  const page = await open(browser, element + script, { address: `${SHOP}kettle` });
  await becomes(page, shows, kettle, "the first list");
  // The shop's router, which takes a while.
  await page.evaluate(`addEventListener("popstate", () => setTimeout(() => {
    ${one}.src = location.pathname === "/kettle" ? ${JSON.stringify(first)} : ${other};
  }, 50))`);
  await page.evaluate(`${one}.shadowRoot.querySelector("a[rel~=next]").click()`);
  await becomes(page, `location.search !== ""`, true, "whether the page was turned");
  const turned = page.asked.at(-1);
  await page.evaluate(`history.pushState(null, "", "/toaster"); ${one}.src = ${other}`);
  await becomes(page, shows, toaster, "the other product");
  page.asked.length = 0;
  await page.goBack();
  await becomes(page, shows, kettle, "the product after Back");
  assertEqual(page.asked, [turned], "what is asked for after Back");
  await page.goForward();
  await becomes(page, shows, toaster, "the product after Forward");
  assertEqual(page.asked, [turned, asked(second)], "what is asked for after Forward");
  await page.close();
}

/** A shop that trusts nobody's HTML keeps the link. */
async function isNotTrusted(browser) {
  const page = await open(browser, element + script, { policy: "require-trusted-types-for 'script'; trusted-types 'none'" });
  await becomes(page, `${one}.querySelector("a").checkVisibility() && ${one}.shadowRoot === null`, true, "whether the link stays");
  assert(page.asked.length === 0, "it asks for", page.asked);
  await page.close();
}

const browser = await launch(["--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests"]);
try {
  for (const [name, happening] of Object.entries(CASES)) {
    const page = await changes(browser, name, happening);
    const named = new URL(page.url()).searchParams.get("comments");
    assertEqual(named, null, `the list that the page's address names: ${name}`);
    await page.close();
  }
  await showsNoOldList(browser);
  await goBack(browser);
  await isNotTrusted(browser);
} finally {
  await browser.close();
}
