// What waits for a decision, in the shop's back office. Start: PAGEMARK=http://127.0.0.1:8080 MODERATOR=… node queue.mjs

import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { isStaff } from "./shop.mjs"; // yours

const { PAGEMARK, MODERATOR, PORT = "3001" } = process.env;
const headers = { authorization: `Bearer ${MODERATOR}`, "content-type": "application/json" };
async function ask(path, more) {
  const answer = await fetch(`${PAGEMARK}/api/v1/${path}`, { headers, signal: AbortSignal.timeout(5000), ...more });
  if (!answer.ok) throw new Error(`Pagemark says ${answer.status}`);
  return answer.json();
}
const escaped = (words) => String(words ?? "").replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const shown = ({ id, product, rating, author, body }) => `<form method="post">
<p>${escaped(product)}, ${rating} out of 5, by ${escaped(author)}</p><blockquote>${escaped(body)}</blockquote>
<input type="hidden" name="id" value="${escaped(id)}"><button name="status" value="published">Publish</button>
<button name="status" value="hidden">Hide</button></form>`;

async function show(request) {
  if (!isStaff(request)) return [403, "Please sign in."];
  if (request.method === "POST" && request.headers["sec-fetch-site"] === "same-origin") {
    const form = new URLSearchParams(await text(request));
    const body = JSON.stringify({ status: form.get("status") });
    await ask(`comments/${encodeURIComponent(form.get("id"))}`, { method: "PATCH", body });
  }
  const { comments } = await ask("moderation?status=pending");
  return [200, comments.map(shown).join("") || "<p>Nothing waits.</p>"];
}

createServer(async (request, response) => {
  const [status, page] = await show(request).catch((error) => [503, escaped(error)]);
  response.writeHead(status, { "content-type": "text/html; charset=utf-8" }).end(`<!doctype html><title>Reviews</title>${page}`);
}).listen(Number(PORT), "127.0.0.1");
