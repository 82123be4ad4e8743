// The cards of what people are asked: new ones appear, those that are over go. A card never changes but for its plan.
"use strict";

muster.puts.push((id, html) => {
  const cards = document.getElementById("cards");
  if (!cards) return false;
  if (id === "cards-open") { keep(cards, (html ?? "").split(" ").filter(Boolean)); return true; }
  if (!id.startsWith("card-")) return false;
  if (html === null) { drop(document.getElementById(id)); return true; }
  if (cards.dataset.only) return true; // the page of one ask; what it shows was asked so
  if (document.getElementById(id)) return false;
  const card = document.createElement("article");
  card.id = id;
  card.className = "card";
  card.innerHTML = html;
  cards.append(card);
  return true;
});

function keep(cards, open) {
  for (const card of [...cards.children]) if (!open.includes(card.id)) drop(card);
}

function drop(card) {
  if (!card) return;
  const had_focus = card.contains(document.activeElement);
  const only = card.parentElement.dataset.only;
  if (only) {
    if (only === card.id) document.getElementById("over").hidden = false;
    return;
  }
  card.remove();
  if (had_focus) document.getElementById("main").focus();
}
