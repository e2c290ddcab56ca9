// Takes reviews from the shop's form. Start: PAGEMARK=http://127.0.0.1:8080 TOKEN=… node reviews.mjs

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { fieldsOf, isOwn } from "./forms.mjs";
import { customerOf, sells } from "./shop.mjs"; // yours

const { PAGEMARK, TOKEN, PORT = "3000" } = process.env;

async function take(request) {
  const customer = customerOf(request);
  if (!customer || !isOwn(request)) return [403, "Please sign in."];
  const form = request.method === "POST" && (await fieldsOf(request));
  if (!form?.product) return [400, "This is no review."];
  if (!sells(form.product)) return [404, "There is no such product."];
  const words = { language: form.language, rating: Number(form.rating), title: form.title || undefined, body: form.body };
  const body = JSON.stringify({ ...words, author: customer.name, author_id: customer.id });
  // The same review has the same key, so it is created once, however often it is sent.
  const key = createHash("sha256").update(form.product + body).digest("hex");
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", "idempotency-key": key };
  const address = `${PAGEMARK}/api/v1/products/${encodeURIComponent(form.product)}/comments`;
  const answer = await fetch(address, { method: "POST", headers, body, signal: AbortSignal.timeout(5000) });
  if (answer.ok) return [303, "", { location: `/${encodeURIComponent(form.product)}?thanks` }];
  return answer.status === 400 ? [400, (await answer.json()).detail] : [503, "Please send it again later."];
}

createServer(async (request, response) => {
  const [status, words, headers] = await take(request).catch(() => [503, "Please send it again later."]);
  // What it has not read of a request is not taken for the next one.
  if (!request.complete) response.setHeader("connection", "close");
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...headers }).end(words);
}).listen(Number(PORT), "127.0.0.1");
