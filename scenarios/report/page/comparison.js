'use strict';
// Heat maps, pages of wide tables, tabs, and the profiles of the comparison.

// One placer over two axes of a table: the axis of the charts, and the next one.
function heatMap(charts, r) {
  const {table, along} = charts;
  const down = table.axes.findIndex((_, a) => a !== along);
  const held = table.columns.map((_, c) => c).filter(c => table.axes.every((_, a) =>
    a === along || a === down || table.columns[c][a] === charts.held[a]));
  const row = table.rows[r];
  const values = charts.values(row);
  const known = held.map(c => values[c]).filter(v => v !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)].map(Math.log);
  const cell = c => {
    if (c === undefined) return element('td', {textContent: '-'});
    if (values[c] === null) {
      const kinds = {1: ['oom', 'OOM'], 2: ['infeasible', 'infeasible'], 3: ['error', 'error']};
      const [className, textContent] = kinds[row.status[c]] || ['', '-'];
      return element('td', {className, textContent});
    }
    const part = high > low ? (Math.log(values[c]) - low) / (high - low) : 0;
    const text = charts.view === 'time' ? timeText(values[c]) : values[c].toFixed(2);
    const td = element('td', {textContent: text});
    td.style.background = `color-mix(in srgb, #0072b2 ${(75 * part).toFixed(0)}%, transparent)`;
    if (part > 0.75) td.style.color = '#fff';
    return td;
  };
  const across = distinct(held.map(c => table.columns[c][along]));
  const lines = distinct(held.map(c => table.columns[c][down])).map(value => element('tr', {},
    element('th', {textContent: short(value)}),
    ...across.map(x => cell(held.find(c => table.columns[c][along] === x && table.columns[c][down] === value)))));
  return element('table', {},
    element('thead', {}, element('tr', {}, element('th', {textContent: `${row.name}: ${table.axes[down]} \\ ${table.axes[along]}`}),
      ...across.map(x => element('th', {textContent: short(x)})))), ...lines);
}

// A wide table has several parts, of which one is shown.
for (const pages of document.querySelectorAll('.pages')) {
  const parts = [...pages.children];
  if (parts.length < 2) continue;
  let at = 0;
  const label = element('span', {});
  const show = to => {
    at = Math.max(0, Math.min(parts.length - 1, to));
    parts.forEach((part, i) => { part.hidden = i !== at; });
    label.textContent = `columns: part ${at + 1} of ${parts.length}`;
  };
  pages.prepend(element('div', {className: 'controls'},
    element('button', {textContent: '<', ariaLabel: 'part before', onclick: () => show(at - 1)}), label,
    element('button', {textContent: '>', ariaLabel: 'next part', onclick: () => show(at + 1)})));
  show(0);
}

// #explain-ID, the link of a failed cell: below its table, why the run fails, and the command that explains it.
function explainRun() {
  if (!/^#explain-\d+$/.test(location.hash)) return;
  document.getElementById('why')?.remove();
  const link = document.querySelector(`td a[href="${location.hash}"]`);
  if (!link) return;
  const folder = location.protocol === 'file:' ? decodeURIComponent(location.pathname).replace(/\/[^/]*$/, '') : 'FOLDER';
  const why = element('div', {id: 'why'},
    element('p', {}, element('b', {textContent: `${link.closest('tr').cells[0].textContent}: `}), link.closest('td').title),
    element('pre', {textContent: `baechi explain '${folder}' --run ${location.hash.slice(9)}`}));
  link.closest('.pages').after(why);
  why.scrollIntoView({block: 'nearest'});
}
window.addEventListener('hashchange', explainRun);
explainRun();

function drawProfile(canvas, profiles, title) {
  const most = Math.max(1.1, ...profiles.map(p => p.ratio.length ? p.ratio.at(-1) : 1));
  const datasets = profiles.map(({look: i, ...p}) => ({
    label: p.name, borderColor: colours[i % colours.length], backgroundColor: colours[i % colours.length],
    borderWidth: 1.8, stepped: 'before', row: true, mark: marks[i % marks.length],
    pointStyle: marks[i % marks.length].style, pointRotation: marks[i % marks.length].turn || 0,
    pointRadius: p.ratio.map((_, k) => k % Math.ceil(p.ratio.length / 8) === 0 ? 4 : 0).concat([0]),
    data: p.ratio.map((x, k) => ({x, y: p.share[k]})).concat(p.ratio.length ? [{x: most * 1.02, y: p.share.at(-1)}] : [])
  }));
  const longest = Math.max(...profiles.map(p => labelText(p.name).length));
  const slim = canvas.parentElement.clientWidth < narrow;
  if (slim) canvas.parentElement.classList.add('tall');
  return makeChart(canvas, {data: {datasets}, options: {
    layout: {padding: {right: 12 + (slim ? 0 : 6 * longest)}},
    scales: {
      x: {type: 'logarithmic', min: 1, max: most * 1.02, title: {display: true, text: title}, grid: {color: css('--grid')}},
      y: {min: 0, max: 1.02, title: {display: true, text: 'share of points'}, grid: {color: css('--grid')},
        ticks: {callback: v => v > 1 ? '' : v.toFixed(1)}}},
    plugins: {legend: {display: slim, position: 'bottom', labels: {usePointStyle: true, boxHeight: 7}}, tooltip: {callbacks: {title: () => '',
      label: ({raw, dataset}) => `${dataset.label}: ${(100 * raw.y).toFixed(1)} % within ${raw.x.toFixed(3)} x`}}}}});
}

const drawTab = {
  comparison() {
    for (const [name, title] of [['step', 'step time / the least of all placers'],
      ['placing', 'placing time / the least of all placers']])
      if (page.profiles[name].length) drawProfile(document.getElementById(`profile-${name}`), page.profiles[name], title);
  }
};
function showTab(name) {
  for (const section of document.querySelectorAll('section')) section.hidden = section.id !== name;
  for (const button of document.querySelectorAll('#tabs button'))
    button.ariaSelected = String(button.dataset.tab === name);
  if (drawTab[name]) { drawTab[name](); delete drawTab[name]; }
}
if (!document.getElementById('tabs')) drawTab.comparison();
for (const button of document.querySelectorAll('#tabs button'))
  button.onclick = () => { showTab(button.dataset.tab); history.replaceState(null, '', `#${button.dataset.tab}`); };
