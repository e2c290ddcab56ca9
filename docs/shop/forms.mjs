// What both servers need of forms.

const BYTES_MAX = 100_000;

/** Whether a browser says that the form is the shop's own: no other site may send one in your customer's name. */
export function isOwn({ headers }) {
  const site = headers["sec-fetch-site"];
  if (site) return site === "same-origin";
  // Browsers before 2023, and all of them without HTTPS, name the page's origin alone. Your proxy has to pass on Host.
  return ["http", "https"].some((scheme) => headers.origin === `${scheme}://${headers.host}`);
}

/** The fields of a form; null if it is too long, or has a field twice. */
export async function fieldsOf(request) {
  const parts = [];
  let bytes = 0;
  for await (const part of request.iterator({ destroyOnReturn: false })) {
    bytes += part.length;
    if (bytes > BYTES_MAX) return null;
    parts.push(part);
  }
  const fields = [...new URLSearchParams(Buffer.concat(parts).toString())];
  const named = Object.fromEntries(fields);
  return Object.keys(named).length === fields.length ? named : null;
}
