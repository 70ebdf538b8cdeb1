/** Canonical JSON (RFC 8785): the same value always has the same bytes, whoever wrote it. */

/** The canonical text of a JSON value. Throws a `TypeError` for what JSON cannot hold. */
export function canonicalJson(value: unknown): string {
  switch (typeof value) {
    case "string":
      if (!isWellFormed(value)) throw new TypeError("half of a surrogate pair has no canonical form");
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${value} has no canonical form`);
      return JSON.stringify(value);
    case "boolean":
      return String(value);
    case "object": {
      if (value === null) return "null";
      if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
      // `sort` compares UTF-16 code units, as the RFC asks.
      const members = Object.entries(value).filter(([, member]) => member !== undefined);
      members.sort(([a], [b]) => (a < b ? -1 : 1));
      return `{${members.map(([name, member]) => `${canonicalJson(name)}:${canonicalJson(member)}`).join(",")}}`;
    }
    default:
      throw new TypeError(`a ${typeof value} has no canonical form`);
  }
}

function isWellFormed(text: string): boolean {
  return !/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(text);
}
