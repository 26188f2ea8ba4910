(function () {
  const copy = document.getElementById("copy"), text = document.getElementById("bibtex");
  copy.addEventListener("click", async function () {
    let done = true;
    try { await navigator.clipboard.writeText(text.textContent); } catch {
      getSelection().selectAllChildren(text);
      done = document.execCommand("copy");
    }
    copy.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { copy.textContent = "Copy BibTeX"; }, 2000);
  });
})();
