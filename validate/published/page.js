'use strict';
// Simulated against measured, one chart per block.

const blocks = JSON.parse(document.getElementById('data').textContent);
const colours = ['#3d7fc4', '#e0872b', '#3a9e60', '#c9485b', '#8a6bc9', '#9a6a4f', '#d271b5', '#7d848c', '#a5a332', '#31a8b5'];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
Chart.defaults.color = css('--soft');
Chart.defaults.borderColor = css('--grid');

blocks.forEach((block, i) => {
  const groups = [...new Set(block.rows.map(r => r.group))];
  const all = block.rows.flatMap(r => [r.measured, r.simulated]);
  const least = Math.min(...all) * 0.8, most = Math.max(...all) * 1.25;
  const line = {type: 'line', data: [{x: least, y: least}, {x: most, y: most}], label: 'equal', pointRadius: 0,
    borderWidth: 1, borderDash: [5, 4], borderColor: css('--soft'), backgroundColor: 'transparent'};
  const points = groups.map((g, k) => ({label: g || block.name, backgroundColor: colours[k % colours.length], pointRadius: 3,
    data: block.rows.filter(r => r.group === g).map(r => ({x: r.measured, y: r.simulated, row: r}))}));
  const axis = text => ({type: 'logarithmic', min: least, max: most, title: {display: true, text},
    ticks: {maxTicksLimit: 8, callback: v => v >= least && v <= most ? Number(v.toPrecision(2)) : ''}});
  const label = c => `${c.raw.row.what}: measured ${c.raw.x.toPrecision(4)}, simulated ${c.raw.y.toPrecision(4)} (${(100 * (c.raw.y / c.raw.x - 1)).toFixed(1)} %)`;
  new Chart(document.getElementById('block' + i), {type: 'scatter', data: {datasets: [...points, line]},
    options: {animation: false, maintainAspectRatio: false, locale: 'en-US',
      scales: {x: axis('measured'), y: axis('simulated')},
      plugins: {title: {display: true, text: block.name}, legend: {position: 'bottom', labels: {boxWidth: 10}},
        tooltip: {filter: c => c.raw.row !== undefined, callbacks: {label}}}}});
});
document.body.dataset.charts = String(blocks.length);
