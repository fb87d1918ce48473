// What must hold for any page that a person uses. These functions run in the browser.

/// Controls without an accessible name, and pictures without a description.
export function findNameless() {
  const isShown = (element) => element.checkVisibility({ checkVisibilityCSS: true });
  const name = (element) =>
    element.getAttribute('aria-label') || [...(element.labels ?? [])].map((label) => label.textContent).join('') ||
    (element.matches('button, summary, a') ? element.textContent : '');
  return [...document.querySelectorAll('button, a, input, textarea, select, summary, [role=img], [role=slider], [role=region]')]
    .filter((element) => isShown(element) && name(element).trim() === '')
    .map((element) => element.outerHTML.slice(0, 80));
}

/// Texts whose contrast with what lies behind them is below 4.5.
export function findLowContrast() {
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  const paint = (colours) => {
    pen.fillStyle = 'white';
    pen.fillRect(0, 0, 1, 1);
    for (const { colour, opacity } of colours) {
      pen.globalAlpha = opacity;
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      pen.globalAlpha = 1;
    }
    const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data].map((byte) => {
      const part = byte / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const layers = (element) => {
    const out = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      for (const layer of out) layer.opacity *= Number(style.opacity);
      out.unshift({ colour: style.backgroundColor, opacity: Number(style.opacity) });
    }
    return out;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() === '' || element.closest('.unseen, noscript, option, :disabled')) continue;
    if (!element.checkVisibility({ checkVisibilityCSS: true })) continue;
    const behind = layers(element);
    const back = paint(behind);
    const front = paint([...behind, { colour: getComputedStyle(element).color, opacity: behind.at(-1).opacity }]);
    const contrast = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${element.className} ${walker.currentNode.data.slice(0, 30)}`);
  }
  return found;
}
