// Adds to pages that work without it: copy buttons, light or dark, one language for all tabs, and
// the search of a folder of files.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* private mode */ } },
  };

  const theme = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const show = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  if (kept.get("theme")) root.dataset.theme = kept.get("theme");
  theme.hidden = false;
  show();
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set("theme", root.dataset.theme);
    show();
  });

  // On a small screen the list of pages begins closed.
  if (matchMedia("(max-width: 50rem)").matches) document.querySelector("nav.pages details").open = false;

  for (const block of document.querySelectorAll(".code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.querySelector("code").textContent.trimEnd());
        button.textContent = "Copied";
      } catch {
        button.textContent = "Not allowed";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    block.append(button);
  }

  const tabs = [...document.querySelectorAll(".tabs > input")];
  const choose = (value) => tabs.filter((tab) => tab.value === value).forEach((tab) => { tab.checked = true; });
  if (kept.get("language")) choose(kept.get("language"));
  for (const tab of tabs) tab.addEventListener("change", () => { kept.set("language", tab.value); choose(tab.value); });

  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(input|textarea|select)$/i.test(event.target.tagName)) {
      event.preventDefault();
      document.getElementById("q").focus();
    }
  });

  const results = document.getElementById("results");
  if (results) searchFiles(results);

  function searchFiles(list) {
    const query = new URLSearchParams(location.search).get("q") || "";
    const note = document.getElementById("results-note");
    document.getElementById("q").value = query;
    list.replaceChildren();
    const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
    if (words.length === 0) { note.textContent = "Enter words above."; return; }
    const escaped = words.map((word) => new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[$()*+./?[\\\]^{|}]/g, "\\$&")}`, "giu"));
    const count = (text, word) => (text.match(word) || []).length;
    const sections = globalThis.SECTIONS || [];
    const score = ([page, heading, , text]) => escaped.reduce((sum, word) => {
      const one = 20 * Math.min(count(heading, word), 1) + 8 * Math.min(count(page, word), 1) + Math.min(count(text, word), 5);
      return sum === null || one === 0 ? null : sum + one;
    }, 0);
    const found = sections.map((section) => [score(section), section]).filter(([n]) => n).sort((a, b) => b[0] - a[0]).slice(0, 40);
    note.textContent = `${found.length} sections`;
    for (const [, [page, heading, link, text]] of found) {
      const item = document.createElement("li");
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = heading ? `${page}: ${heading}` : page;
      const excerpt = document.createElement("p");
      const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
      excerpt.textContent = text.slice(at, at + 200);
      item.append(anchor, excerpt);
      list.append(item);
    }
  }
})();
