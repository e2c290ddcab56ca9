// Shows the comments of a product inside a page of another site; see docs/pages.md.
// <pagemark-comments src="https://SITE/fragment/product/ID/comments"><a href="…">Comments</a></pagemark-comments>
"use strict";
// A page may load the script again. It may be a module, too, so it does not ask where it comes from.
if (!customElements.get("pagemark-comments")) {
  // The address of a list: site, product, and which one of the product's lists.
  const LIST = /^(https?:.*)(\/product\/[^/?#]+\/comments)([^#]*)/;
  const FRAGMENT = /^(https?:.*)\/fragment(\/product\/[^/?#]+\/comments)([^#]*)/;
  // Such as /en/4.5?page=3. It may come from a link that somebody made up, so it cannot lead to another place of the site.
  const WHICH = /^(\/[\w~-][\w~.-]*)*(\?.*)?$/;
  const PROPERTIES = ["src", "label", "theme"];
  // The shop names the site, so it trusts the HTML that comes from there.
  const policy = window.trustedTypes?.createPolicy("pagemark-comments", { createHTML: (html) => html });

  class PagemarkComments extends HTMLElement {
    static observedAttributes = ["src", "label"];
    #sheet = document.createElement("link");
    #list = document.createElement("section");
    // What `src` said last, and the address of the list that was asked for last.
    #from;
    #shown;
    // What the page's address said then: its parameter, and its route.
    #which;
    #place;
    #isScheduled = false;

    constructor() {
      super();
      this.#sheet.rel = "stylesheet";
      this.#list.tabIndex = -1;
      this.#list.append(document.createElement("slot"));
      const root = this.attachShadow({ mode: "open" });
      root.append(this.#list);
      root.addEventListener("click", this);
      root.addEventListener("submit", this);
    }

    connectedCallback() {
      addEventListener("popstate", this);
      for (const name of PROPERTIES) {
        // A framework may have set it before the element was defined.
        if (!Object.hasOwn(this, name)) continue;
        const value = this[name];
        delete this[name];
        this[name] = value;
      }
      this.#schedule();
    }

    disconnectedCallback() {
      removeEventListener("popstate", this);
    }

    attributeChangedCallback() {
      this.#schedule();
    }

    // Frameworks insert, move and change an element in any order. Only what comes of it in the end counts.
    #schedule() {
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      queueMicrotask(() => {
        this.#isScheduled = false;
        if (this.isConnected) this.#update();
      });
    }

    #update() {
      this.#list.setAttribute("aria-label", this.getAttribute("label") ?? "Comments");
      const [source, root, product] = this.#source;
      // The parameter belongs to what `src` said before, unless Back or a router has changed it, too.
      const isOfOther = source && this.#from && source !== this.#from && this.#named === this.#which;
      if (isOfOther) this.#rename(null, "replaceState");
      if (source) this.#from = source;
      if (this.#asked === this.#shown) return;
      if (!this.#shown?.startsWith(`${root}/fragment${product}`)) this.#empty();
      if (root && this.#sheet.href !== `${root}/fragment.css`) {
        this.#sheet.href = `${root}/fragment.css`;
        this.shadowRoot.prepend(this.#sheet);
      }
      this.#show(this.#asked);
    }

    // The address of the fragment, its site, its product, and which list it is; nothing where it is no fragment's.
    get #source() {
      const link = document.createElement("a");
      link.href = this.getAttribute("src") ?? "";
      return FRAGMENT.exec(link.href) ?? [];
    }

    // The parameter of the page's address that says which list is shown.
    get #parameter() {
      return this.id || "comments";
    }

    get #named() {
      return new URLSearchParams(location.search).get(this.#parameter);
    }

    // Where the page is, whichever list it shows. Some routers keep the route behind #.
    get #route() {
      const page = new URL(location);
      page.searchParams.delete(this.#parameter);
      if (!/^#[!/]/.test(page.hash)) page.hash = "";
      return page.href;
    }

    get #asked() {
      const [source, , product] = this.#source;
      const which = this.#named;
      return product && which !== null && WHICH.test(which) ? this.#listAt(which) : source;
    }

    // Another list of the product, with headings of the same level.
    #listAt(which) {
      const [source, root, product] = this.#source;
      const level = new URL(source).searchParams.get("heading_level");
      const address = new URL(`${root}/fragment${product}${which}`);
      if (level) address.searchParams.set("heading_level", level);
      return address.href;
    }

    // The link inside the element.
    #empty() {
      this.#list.replaceChildren(document.createElement("slot"));
    }

    // Without a list, the link inside the element is shown. Resolves to whether there is one.
    async #show(address) {
      this.#shown = address;
      this.#which = this.#named;
      this.#place = this.#route;
      this.#list.ariaBusy = "true";
      const list = address && (await this.#fetched(address));
      // Another list has been asked for meanwhile.
      if (address !== this.#shown) return true;
      if (list) this.#list.replaceChildren(list);
      else this.#empty();
      this.#list.ariaBusy = "false";
      return Boolean(list);
    }

    // A server may answer any address with a page of the shop, which is no list.
    async #fetched(address) {
      const text = await fetch(address).then((answer) => (answer.ok ? answer.text() : "")).catch(() => "");
      const template = document.createElement("template");
      template.innerHTML = policy ? policy.createHTML(text) : text;
      return template.content.firstElementChild?.matches(".pagemark-list") ? template.content : null;
    }

    handleEvent(event) {
      const { type, target } = event;
      if (type === "popstate") {
        // Elsewhere, the shop's router shows something else, and changes the element before or after this.
        if (this.#route === this.#place && this.#asked !== this.#shown) this.#show(this.#asked);
      } else if (type === "submit") {
        this.#follow(event, target.action.replace(/[?#].*/, `?${new URLSearchParams(new FormData(target))}`));
      } else {
        const link = target.closest("a[href]");
        const isPlain = !event.defaultPrevented && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
        if (link && isPlain) this.#follow(event, link.href);
      }
    }

    // Other lists of the product are shown here, and the page's address says which. All other links are the browser's.
    async #follow(event, href) {
      const [, site, , which] = LIST.exec(href) ?? [];
      const [source, root] = this.#source;
      if (site !== root || !WHICH.test(which) || new URL(source).searchParams.has("summary")) return;
      event.preventDefault();
      const address = this.#listAt(which);
      if (!(await this.#show(address))) return location.assign(href);
      if (address !== this.#shown) return;
      this.#rename(which, "pushState");
      this.#list.focus({ preventScroll: true });
      this.scrollIntoView();
    }

    // Has the page's address name this list, or none.
    #rename(which, change) {
      const page = new URL(location);
      if (which === null) page.searchParams.delete(this.#parameter);
      else page.searchParams.set(this.#parameter, which);
      if (page.href !== location.href) history[change](history.state, "", page);
      this.#which = this.#named;
      this.#place = this.#route;
    }
  }

  for (const name of PROPERTIES) {
    Object.defineProperty(PagemarkComments.prototype, name, {
      get() {
        return this.getAttribute(name);
      },
      set(value) {
        if (value === null || value === undefined) this.removeAttribute(name);
        else this.setAttribute(name, value);
      },
      configurable: true,
      enumerable: true,
    });
  }
  customElements.define("pagemark-comments", PagemarkComments);
}
