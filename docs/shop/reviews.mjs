// Takes reviews from the shop's form. Start: PAGEMARK=http://127.0.0.1:8080 TOKEN=… node reviews.mjs

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { customerOf, sells } from "./shop.mjs"; // yours

const { PAGEMARK, TOKEN, PORT = "3000" } = process.env;

async function take(request) {
  const customer = customerOf(request);
  // Browsers say so only of the shop's own form: no other site may send one in your customer's name.
  if (!customer || request.headers["sec-fetch-site"] !== "same-origin") return [403, "Please sign in."];
  if (request.method !== "POST" || !(request.headers["content-length"] <= 100_000)) return [400, "This is no review."];
  const form = new URLSearchParams(await text(request));
  const product = form.get("product");
  if (!sells(product)) return [404, "There is no such product."];
  const words = { language: "en", rating: Number(form.get("rating")), body: form.get("body") };
  const body = JSON.stringify({ ...words, author: customer.name, author_id: customer.id });
  // The same review has the same key, so it is created once, however often it is sent.
  const key = createHash("sha256").update(body).digest("hex");
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", "idempotency-key": key };
  const address = `${PAGEMARK}/api/v1/products/${encodeURIComponent(product)}/comments`;
  const answer = await fetch(address, { method: "POST", headers, body, signal: AbortSignal.timeout(5000) });
  if (answer.ok) return [303, "", { location: `/${encodeURIComponent(product)}?thanks` }];
  return answer.status === 400 ? [400, (await answer.json()).detail] : [503, "Please send it again later."];
}

createServer(async (request, response) => {
  const [status, words, headers] = await take(request).catch(() => [503, "Please send it again later."]);
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...headers }).end(words);
}).listen(Number(PORT), "127.0.0.1");
