// What waits for a decision, in the shop's back office. Start: PAGEMARK=http://127.0.0.1:8080 MODERATOR=… node queue.mjs

import { createServer } from "node:http";
import { fieldsOf, isOwn } from "./forms.mjs";
import { isStaff } from "./shop.mjs"; // yours

const { PAGEMARK, MODERATOR, PORT = "3001" } = process.env;
const headers = { authorization: `Bearer ${MODERATOR}`, "content-type": "application/json" };
async function ask(path, more) {
  const answer = await fetch(`${PAGEMARK}/api/v1/${path}`, { headers, signal: AbortSignal.timeout(5000), ...more });
  if (!answer.ok) throw new Error(`Pagemark says ${answer.status}`);
  return answer.json();
}
const escaped = (words) => String(words ?? "").replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const shown = ({ id, product, rating, author, title, body, language, created_at }) => `<form method="post">
<h2>${escaped(product)}, ${rating} out of 5</h2><p>${escaped(author)}, <time>${escaped(created_at)}</time></p>
<blockquote lang="${escaped(language)}"><b>${escaped(title)}</b> ${escaped(body)}</blockquote>
<input type="hidden" name="id" value="${escaped(id)}"><button name="status" value="published">Publish</button>
<button name="status" value="hidden">Hide</button></form>`;

async function show(request) {
  if (!isStaff(request)) return [403, "Please sign in."];
  if (request.method === "POST") {
    const form = isOwn(request) && (await fieldsOf(request));
    if (!form?.id) return [400, "This is no decision."];
    const body = JSON.stringify({ status: form.status });
    await ask(`comments/${encodeURIComponent(form.id)}`, { method: "PATCH", body });
  }
  const cursor = new URL(request.url, "http://shop").searchParams.get("cursor") ?? "";
  const page = await ask(`moderation?status=pending${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
  if (!page.comments.length) return [200, "<p>Nothing waits.</p>"];
  const next = page.cursor.next && `<p><a href="?cursor=${encodeURIComponent(page.cursor.next)}">Next page</a></p>`;
  return [200, `<h1>${page.comments.length} wait${next ? ", and more" : ""}</h1>${page.comments.map(shown).join("")}${next ?? ""}`];
}

createServer(async (request, response) => {
  const [status, page] = await show(request).catch((error) => [503, escaped(error)]);
  if (!request.complete) response.setHeader("connection", "close");
  const head = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Reviews</title>`;
  response.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(head + page);
}).listen(Number(PORT), "127.0.0.1");
