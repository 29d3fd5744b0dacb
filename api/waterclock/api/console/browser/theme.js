// Before anything is painted, so that nobody who chose dark sees light first.
(function () {
  try {
    var chosen = localStorage.getItem("waterclock.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (_) {}
})();
