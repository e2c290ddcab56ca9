// Shows the comments of a product inside a page of another site; see docs/pages.md.
// <pagemark-comments src="https://SITE/fragment/product/ID/comments"><a href="…">Comments</a></pagemark-comments>
"use strict";
{
  const style = new URL("../fragment.css", document.currentScript.src).href;
  // The address of a list: site, product, and which one of the product's lists.
  const LIST = /^(.*)(\/product\/[^/?#]+\/comments)([^#]*)/;
  // Such as /en/4.5?page=3. It may come from a link that somebody made up, so it cannot lead to another place of the site.
  const WHICH = /^(\/[\w~-][\w~.-]*)*(\?.*)?$/;

  class PagemarkComments extends HTMLElement {
    #list;
    #shown;

    connectedCallback() {
      addEventListener("popstate", this);
      if (this.#list) return;
      const root = this.attachShadow({ mode: "open" });
      const sheet = document.createElement("link");
      sheet.rel = "stylesheet";
      sheet.href = style;
      this.#list = document.createElement("section");
      this.#list.tabIndex = -1;
      this.#list.setAttribute("aria-label", this.getAttribute("label") ?? "Comments");
      this.#list.append(document.createElement("slot"));
      root.append(sheet, this.#list);
      root.addEventListener("click", this);
      root.addEventListener("submit", this);
      this.#show(this.#asked);
    }

    disconnectedCallback() {
      removeEventListener("popstate", this);
    }

    get #source() {
      return new URL(this.getAttribute("src"), document.baseURI).href;
    }

    // The parameter of the page's address that says which list is shown.
    get #parameter() {
      return this.id || "comments";
    }

    get #asked() {
      const which = new URLSearchParams(location.search).get(this.#parameter);
      const [, root, product] = LIST.exec(this.#source) ?? [];
      return product && which !== null && WHICH.test(which) ? root + product + which : this.#source;
    }

    // Without a list, the link inside the element is shown. Resolves to whether there is one.
    async #show(address) {
      this.#shown = address;
      this.#list.ariaBusy = "true";
      const text = await fetch(address).then((answer) => (answer.ok ? answer.text() : "")).catch(() => "");
      // A later click has asked for another list meanwhile.
      if (address !== this.#shown) return true;
      this.#list.innerHTML = text || "<slot></slot>";
      this.#list.ariaBusy = "false";
      return text !== "";
    }

    handleEvent(event) {
      const { type, target } = event;
      if (type === "popstate") {
        if (this.#asked !== this.#shown) this.#show(this.#asked);
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
      const [, root, product] = LIST.exec(this.#source) ?? [];
      if (`${site}/fragment` !== root || !WHICH.test(which)) return;
      event.preventDefault();
      const address = root + product + which;
      if (!(await this.#show(address))) return location.assign(href);
      if (address !== this.#shown) return;
      const page = new URL(location);
      page.searchParams.set(this.#parameter, which);
      if (page.href !== location.href) history.pushState(history.state, "", page);
      this.#list.focus({ preventScroll: true });
      this.scrollIntoView();
    }
  }

  customElements.define("pagemark-comments", PagemarkComments);
}
