/* The section that is being read is marked in the list of sections. */
(function () {
  const links = new Map(Array.from(document.querySelectorAll(".contents a"), (link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => entries.forEach(function (entry) {
    if (!entry.isIntersecting) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(entry.target.id).setAttribute("aria-current", "true");
  }), { rootMargin: "-20% 0px -70% 0px" });
  links.forEach((_, id) => seen.observe(document.getElementById(id)));
})();
