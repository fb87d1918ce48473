// Elements out of names, attributes and children; text is only ever text.

/// `properties` are set on the element, `children` are nodes or texts.
export function element(name, properties = {}, ...children) {
  const out = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || key === 'role') out.setAttribute(key, value);
    else out[key] = value;
  }
  out.append(...children);
  return out;
}

export const byId = (id) => document.getElementById(id);

/// A button that copies what `text` gives, and says so for a moment.
export function copyButton(text) {
  const button = element('button', { type: 'button', className: 'quiet', textContent: 'Copy' });
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed';
    }
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  });
  return button;
}
