// Wide code and tables can be scrolled with the keyboard.
addEventListener("load", () => setTimeout(() => {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) part.tabIndex = 0;
}, 0));
