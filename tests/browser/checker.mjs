// The Nu HTML Checker (vnu), which checks HTML and CSS by the standards.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const JAR = join(dirname(createRequire(import.meta.url).resolve("vnu-jar")), "build/dist/vnu.jar");

/** A guess by all texts of a page. But comments state their own languages, and the page is in the language of the site. */
const GUESSED_LANGUAGE = /^This document appears to be written in /;

/** The errors and warnings about `documents`, which are pairs of a file name and its content. Java starts once for all. */
export function complaints(documents) {
  const folder = mkdtempSync(join(tmpdir(), "pages-"));
  try {
    for (const [name, content] of documents) writeFileSync(join(folder, name), content);
    const printed = execFileSync("java", ["-jar", JAR, "--stdout", "--format", "json", "--exit-zero-always", "--also-check-css", folder]);
    const messages = JSON.parse(printed).messages.filter(({ message }) => !GUESSED_LANGUAGE.test(message));
    return messages.map(({ url, message, extract }) => `${url.split("/").at(-1)}: ${message} at ${extract}`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
