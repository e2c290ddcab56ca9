// For trying: the page of a product, and its form. Your own web server passes /reviews on like this one. Start: node site.mjs

import { readFile } from "node:fs/promises";
import { createServer, request as ask } from "node:http";

const { SITE_PORT = "3002", PORT = "3000" } = process.env;
createServer(async (asked, response) => {
  if (asked.url !== "/reviews") {
    const headers = { "content-type": "text/html; charset=utf-8", "set-cookie": "customer=7; SameSite=Lax; HttpOnly" };
    return response.writeHead(200, headers).end(await readFile("espresso.html"));
  }
  const { method, headers } = asked;
  const passed = ask({ host: "127.0.0.1", port: PORT, path: "/reviews", method, headers }, (answer) => {
    answer.pipe(response.writeHead(answer.statusCode, answer.headers));
  });
  asked.pipe(passed.on("error", () => response.writeHead(502).end("Start reviews.mjs.")));
}).listen(Number(SITE_PORT), "127.0.0.1");
