// The theme, before anything is painted: the system's, or what was chosen here.
(() => {
  'use strict';
  const key = 'foretoken.theme';
  const system = matchMedia('(prefers-color-scheme: dark)');
  let chosenHere = null; // where the browser keeps nothing
  const chosen = () => {
    try {
      return localStorage.getItem(key) ?? chosenHere;
    } catch {
      return chosenHere;
    }
  };
  const apply = () => {
    const theme = chosen() ?? (system.matches ? 'dark' : 'light');
    document.documentElement.dataset.theme = theme;
    const button = document.getElementById('toggle-theme');
    if (button) button.setAttribute('aria-pressed', String(theme === 'dark'));
    dispatchEvent(new Event('themechange'));
  };
  system.addEventListener('change', apply);
  addEventListener('DOMContentLoaded', () => {
    document.getElementById('toggle-theme').addEventListener('click', () => {
      const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
      try {
        localStorage.setItem(key, next);
      } catch {
        chosenHere = next;
      }
      apply();
    });
    apply();
  });
  apply();
})();
