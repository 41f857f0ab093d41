// A button on each block of code that copies it, without the prompts and the output of doctests.
document.addEventListener("DOMContentLoaded", () => {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll(".bd-article div.highlight")) {
    const text = block.querySelector("pre").innerText;
    const lines = text.split("\n").filter((line) => /^(>>>|\.\.\.)( |$)/.test(line));
    const code = lines.length ? lines.map((line) => line.slice(4)).join("\n") : text;
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(code).then(() => {
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      });
    });
    block.append(button);
  }
});
