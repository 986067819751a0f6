'use strict';
// Two charts per block: simulated against measured, and errors by size.

const blocks = JSON.parse(document.getElementById('data').textContent);
const colours = ['#3d7fc4', '#e0872b', '#3a9e60', '#c9485b', '#8a6bc9', '#9a6a4f', '#d271b5', '#7d848c', '#a5a332', '#31a8b5'];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
Chart.defaults.color = css('--soft');
Chart.defaults.borderColor = css('--grid');

const percent = share => `${(100 * share).toFixed(1)} %`;
const what = r => `${r.what}: measured ${r.measured.toPrecision(4)}, simulated ${r.simulated.toPrecision(4)} (${percent(r.simulated / r.measured - 1)})`;
const logarithmic = (text, least, most) => ({type: 'logarithmic', min: least, max: most, title: {display: true, text},
  ticks: {maxTicksLimit: 8, callback: v => v >= least && v <= most ? Number(v.toPrecision(2)) : ''}});
const range = values => [values.reduce((a, b) => Math.min(a, b)) * 0.8, values.reduce((a, b) => Math.max(a, b)) * 1.25];
const guide = (from, to, label) => ({type: 'line', data: [from, to], label, pointRadius: 0, borderWidth: 1, borderDash: [5, 4],
  borderColor: css('--soft'), backgroundColor: 'transparent'});

function chart(id, title, block, point, line, x, y) {
  const groups = [...new Set(block.rows.map(r => r.group))];
  const points = groups.map((g, k) => ({label: g || block.name, backgroundColor: colours[k % colours.length], pointRadius: 2.5,
    data: block.rows.filter(r => r.group === g).map(r => ({...point(r), row: r}))}));
  new Chart(document.getElementById(id), {type: 'scatter', data: {datasets: [...points, line]},
    options: {animation: false, maintainAspectRatio: false, locale: 'en-US', scales: {x, y},
      plugins: {title: {display: true, text: title}, legend: {display: groups.length <= 12, position: 'bottom', labels: {boxWidth: 10}},
        tooltip: {filter: c => c.raw.row !== undefined, callbacks: {label: c => what(c.raw.row)}}}}});
}

blocks.forEach((block, i) => {
  if (block.rows.length === 0) return;
  const [least, most] = range(block.rows.flatMap(r => [r.measured, r.simulated]));
  chart(`block${i}`, block.name, block, r => ({x: r.measured, y: r.simulated}),
    guide({x: least, y: least}, {x: most, y: most}, 'equal'), logarithmic('measured', least, most), logarithmic('simulated', least, most));
  const size = r => r.size || r.measured, swept = block.rows.some(r => r.size);
  const [first, last] = range(block.rows.map(size));
  chart(`errors${i}`, `${block.name}: errors`, block, r => ({x: size(r), y: 100 * (r.simulated / r.measured - 1)}),
    guide({x: first, y: 0}, {x: last, y: 0}, 'no error'), logarithmic(swept ? 'size' : 'measured', first, last),
    {title: {display: true, text: 'error, %'}});
});
document.body.dataset.charts = String(2 * blocks.filter(b => b.rows.length > 0).length);
