// After an @ in the goal: the agents that can be named, chosen by arrow keys and Enter, or with the mouse.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const goal = document.getElementById("goal");
  const list = document.getElementById("mentions");
  const names = [...document.querySelectorAll("[data-mention]")].map((each) => each.dataset.mention);
  if (!goal || !names.length) return;
  let chosen = 0;
  goal.setAttribute("aria-controls", "mentions");
  goal.setAttribute("aria-autocomplete", "list");

  function begun() {
    return /(^|\s)@([\w/.-]*)$/.exec(goal.value.slice(0, goal.selectionStart));
  }

  function show() {
    const word = begun();
    const fits = word ? names.filter((name) => name.startsWith(word[2])) : [];
    list.hidden = !fits.length;
    list.replaceChildren(...fits.map((name, index) => {
      const option = document.createElement("div");
      option.id = `mention-${index}`;
      option.role = "option";
      option.textContent = `@${name}`;
      option.dataset.name = name;
      option.addEventListener("mousedown", (event) => { event.preventDefault(); take(name); });
      return option;
    }));
    choose(0);
  }

  function choose(index) {
    const options = [...list.children];
    chosen = options.length ? (index + options.length) % options.length : 0;
    options.forEach((option, place) => option.setAttribute("aria-selected", String(place === chosen)));
    if (list.hidden) goal.removeAttribute("aria-activedescendant");
    else goal.setAttribute("aria-activedescendant", `mention-${chosen}`);
  }

  function take(name) {
    const at = goal.selectionStart - begun()[2].length;
    goal.setRangeText(`${name} `, at, goal.selectionStart, "end");
    list.hidden = true;
    choose(0);
  }

  goal.addEventListener("input", show);
  goal.addEventListener("blur", () => { list.hidden = true; });
  goal.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const deeds = {
      ArrowDown: () => choose(chosen + 1),
      ArrowUp: () => choose(chosen - 1),
      Enter: () => take(list.children[chosen].dataset.name),
      Tab: () => take(list.children[chosen].dataset.name),
      Escape: () => { list.hidden = true; },
    };
    if (!deeds[event.key]) return;
    event.preventDefault();
    deeds[event.key]();
  });
});
