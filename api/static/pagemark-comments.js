// Shows the comments of a product inside a page of another site; see docs/pages.md.
// <pagemark-comments src="https://SITE/fragment/product/ID/comments"><a href="…">Comments</a></pagemark-comments>
"use strict";
{
  const style = new URL("style.css", document.currentScript.src).href;

  class PagemarkComments extends HTMLElement {
    #list;
    #turn = 0;

    connectedCallback() {
      if (this.#list) return;
      const root = this.attachShadow({ mode: "open" });
      const sheet = document.createElement("link");
      sheet.rel = "stylesheet";
      sheet.href = style;
      this.#list = document.createElement("section");
      this.#list.tabIndex = -1;
      this.#list.setAttribute("aria-label", this.getAttribute("label") ?? "Comments");
      // Until there is a list, and if there is none, the link inside the element is shown.
      this.#list.append(document.createElement("slot"));
      root.append(sheet, this.#list);
      root.addEventListener("click", (event) => this.#follow(event));
      this.#show(this.#source.href).catch(() => {});
    }

    get #source() {
      return new URL(this.getAttribute("src"), document.baseURI);
    }

    async #show(address) {
      const turn = ++this.#turn;
      this.#list.ariaBusy = "true";
      try {
        const answer = await fetch(address);
        if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
        const text = await answer.text();
        // A later click has asked for another page meanwhile.
        if (turn === this.#turn) this.#list.innerHTML = text;
      } finally {
        if (turn === this.#turn) this.#list.ariaBusy = "false";
      }
      return turn === this.#turn;
    }

    // Links to lists of comments are followed here. All others, and those for a new tab, are the browser's.
    #follow(event) {
      const link = event.target.closest("a[href]");
      const { href } = this.#source;
      const site = href.slice(0, href.indexOf("/fragment/"));
      const isPlain = !event.defaultPrevented && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
      const path = link?.href.startsWith(site) && link.href.slice(site.length);
      if (!isPlain || !path || !/^\/product\/[^/?#]+\/comments(?![^/?#])/.test(path)) return;
      event.preventDefault();
      const shown = this.#show(`${site}/fragment${path}`);
      shown.then(
        (isShown) => {
          if (!isShown) return;
          this.#list.focus({ preventScroll: true });
          this.scrollIntoView();
        },
        () => location.assign(link.href),
      );
    }
  }

  customElements.define("pagemark-comments", PagemarkComments);
}
