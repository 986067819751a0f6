'use strict';
// Predicted against measured, errors, and rival models of one validation run.

const data = JSON.parse(document.getElementById('data').textContent);
const colours = ['#3d7fc4', '#e0872b', '#3a9e60', '#c9485b', '#8a6bc9', '#9a6a4f', '#d271b5', '#7d848c', '#a5a332', '#31a8b5'];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
Chart.defaults.color = css('--soft');
Chart.defaults.borderColor = css('--grid');

const scale = (title, more) => ({title: {display: true, text: title}, ...more});
function draw(id, type, datasets, scales, more) {
  new Chart(document.getElementById(id), {
    type, data: datasets,
    options: {animation: false, maintainAspectRatio: false, locale: 'en-US', scales, ...more}
  });
}
const groups = [...new Set(data.plans.map(p => p.group))];
const label = c => {
  const p = c.raw.plan;
  return `${p.name}: measured ${p.measured.toPrecision(5)} us, predicted ${p.predicted.toPrecision(5)} us (${(100 * p.error).toFixed(2)} %)`;
};
const tips = {plugins: {tooltip: {callbacks: {label}}, legend: {position: 'bottom', labels: {boxWidth: 10}}}};
const byGroup = y => groups.map((g, i) => ({
  label: g, backgroundColor: colours[i % colours.length], borderColor: colours[i % colours.length], pointRadius: 3,
  data: data.plans.filter(p => p.group === g).map(p => ({x: p.measured, y: y(p), plan: p}))
}));

if (data.plans.length > 0) {
  const all = data.plans.flatMap(p => [p.measured, p.predicted]);
  const least = Math.min(...all) * 0.95, most = Math.max(...all) * 1.05;
  draw('scatter', 'scatter', {datasets: [...byGroup(p => p.predicted),
    {label: 'equal', type: 'line', data: [{x: least, y: least}, {x: most, y: most}], pointRadius: 0, borderWidth: 1, borderDash: [5, 4], borderColor: css('--soft'), backgroundColor: 'transparent'}]},
  {x: scale('measured step, us', {type: 'logarithmic', min: least, max: most}), y: scale('predicted step, us', {type: 'logarithmic', min: least, max: most})},
  {...tips, plugins: {...tips.plugins, tooltip: {...tips.plugins.tooltip, filter: c => c.raw.plan !== undefined}}});
  draw('errors', 'scatter', {datasets: byGroup(p => 100 * p.error)},
    {x: scale('measured step, us', {type: 'logarithmic'}), y: scale('error of the prediction, %')}, tips);
}
draw('rivals', 'bar', {labels: data.rivals.map(r => r.name), datasets: [
  {label: 'median', data: data.rivals.map(r => Math.max(100 * r.median, 0.0011)), backgroundColor: colours[0]},
  {label: '95 % of plans are below', data: data.rivals.map(r => Math.max(100 * r.p95, 0.0011)), backgroundColor: colours[1]}]},
{x: scale('absolute error of the step time, %', {type: 'logarithmic', min: 0.001}), y: {}}, {indexAxis: 'y', plugins: {legend: {position: 'bottom'}}});
document.body.dataset.charts = String(data.plans.length > 0 ? 3 : 1);
