// The screen: a band above the prompt, a pane on demand, the reason at a refused call's row. The daemon composes what is shown.

import { ask, DEADLINE_MS, find, forget, get, isHung, post } from './daemon.js'

const PANE = 'corral'
const HOLD_S = 60 // a daemon that hangs is noticed after it
const AGAIN_MS = 5000
const DIFF_LINES = 24
const AWAY = "Corral's daemon does not answer. `corral doctor` says why."
const COLORS = { green: 'success', red: 'error' }
const PATIENCE = 2 // questions without an answer, where a daemon is just being started
const refused = new Map() // reasons by the ids of the calls
let shown = null // the daemon's latest answer
let unanswered = 0 // questions since

/** The reason of a refusal, for the row of its call. */
export function note(useId, reason) {
  if (refused.size > 200) refused.clear()
  refused.set(useId, reason)
}

/** Whether nobody knows if what was shown last is still true. */
const isAway = () => unanswered > (shown ? 0 : PATIENCE) || isHung()

/** Ask for what is to be shown; resolves whether there is anything: not where nothing is coordinated any more. */
async function refresh($, wait_s) {
  const asked = { session_id: await $.session.id(), shown: isAway() ? '' : shown?.shown ?? '', wait_s }
  const answer = await post($, 'statusline/screen', asked, wait_s * 1000 + DEADLINE_MS)
  const isNews = isAway() || answer.shown !== shown?.shown
  unanswered = 0
  shown = answer.shown === undefined ? null : answer
  if (isNews) $.ui.invalidate('ui.render')
  return shown !== null
}

async function follow($) {
  for (;;) {
    try {
      if (await refresh($, shown && !isAway() ? HOLD_S : 0)) continue
    } catch {
      unanswered += 1
      forget()
      $.ui.invalidate('ui.render')
    }
    await $.clock.sleep(AGAIN_MS).catch(() => undefined)
  }
}

/** Offer `/corral`, before anything that takes time: until then what a person types completes to a skill's name. */
export function offerCommand($) {
  return $.command.register({
    name: 'corral',
    description: 'Show what Corral knows: the queue, locks, mail, and what waits for you',
    argumentHint: '[queue|locks|mail]',
  })
}

export async function startScreen($) {
  if (await find($).catch(() => undefined) === null) return // a search that failed is made again
  void follow($)
}

const LISTS = { queue: 'Nothing waits to land.', locks: 'Nobody holds anything.', mail: 'No mail.' }

/** Show the person what it changes, and approve exactly that: nothing is approved by a slip. */
async function approve($, need) {
  const { diff, head_sha } = await get($, `merges/${need.merge_id}/approval`)
  const lines = diff.trimEnd().split('\n')
  const more = lines.length > DIFF_LINES ? [`… corral merge diff ${need.merge_id.slice(0, 8)} shows all of it.`] : []
  const asked = [need.what, '', ...lines.slice(0, DIFF_LINES), ...more, '', 'Approve this, so that it lands once verified?']
  const answer = await $.ui.ask(asked.join('\n'), ['Approve', 'Not now']).finally(() => ask($, 'ModAsked', {}).catch(() => undefined))
  if (answer !== 'Approve') return
  await post($, `merges/${need.merge_id}/approve`, { head_sha })
  $.ui.toast('Approved: it lands once verified.')
}

/** Do what a button is for; it may take longer than a press may. */
function press($, deed) {
  void deed.catch(fault => $.ui.toast(fault.message))
}

async function command($, argv) {
  const done = await $.process.run([`${$.plugin.root}/bin/corral`, ...argv], { timeoutMs: 60000 })
  const [line = ''] = `${done.stdout}${done.stderr}`.trim().split('\n')
  $.ui.toast(line || (done.exitCode === 0 ? 'Done.' : 'It failed.'))
}

export function screen(on) {
  on('command.run', { command: 'corral' }, async ($, e) => {
    if (await find($) === null) return { text: 'Nothing is coordinated here: run `corral init`.', isTextDisplayOnly: true }
    try {
      await refresh($, 0)
    } catch {
      return { text: AWAY, isTextDisplayOnly: true }
    }
    const what = e.args.trim()
    if (what === '' && e.presentation?.isFullscreen) {
      await $.ui.open({ id: PANE, title: 'Corral' })
      return { text: shown?.band ?? '', isTextDisplayOnly: true }
    }
    const lines = what in LISTS ? shown?.[what] ?? [] : [shown?.band ?? '', ...(shown?.needs ?? []).map(need => need.what)]
    return { text: lines.join('\n') || LISTS[what] || 'Nothing to tell.', isTextDisplayOnly: true }
  })

  on('ui.render', { component: 'AbovePrompt' }, async ($, e, next) => {
    if (!(shown || isAway()) || e.props.hasSurvey) return next(e)
    const { Box, Text } = $.ui.resolve(e)
    if (isAway()) return h(Box, {}, h(Text, { color: 'warning', wrap: 'truncate' }, AWAY))
    const [target, ...rest] = shown.band.split(' | ')
    return h(Box, {},
      h(Text, { color: COLORS[shown.standing] ?? 'warning' }, target),
      h(Text, { dimColor: true, wrap: 'truncate' }, rest.map(part => ` | ${part}`).join('')))
  })

  on('ui.render', { component: 'Pane', requestId: PANE }, async ($, e) => {
    const { Box, Button, Text } = $.ui.resolve(e)
    const part = (title, lines) => [h(Text, { bold: true }, title), ...lines.map(line => h(Text, {}, line))]
    const needs = (shown?.needs ?? []).flatMap(need => [
      h(Text, {}, need.what),
      need.merge_id
        ? h(Button, { key: `approve-${need.merge_id}`, label: 'Approve', onPress: () => press($, approve($, need)) })
        : h(Text, { dimColor: true }, need.remedy),
    ])
    return h(Box, { flexDirection: 'column' },
      h(Text, {}, isAway() ? AWAY : shown?.band ?? ''),
      ...(needs.length ? [h(Text, { bold: true }, 'For you'), ...needs] : []),
      ...part('Queue', shown?.queue.length ? shown.queue : [LISTS.queue]),
      ...part('Held', shown?.locks.length ? shown.locks : [LISTS.locks]),
      h(Button, { key: 'land', label: 'Land this branch', onPress: () => press($, command($, ['merge', 'submit'])) }))
  })

  on('ui.render', { component: 'ToolUse' }, async ($, e, next) => {
    const reason = refused.get(e.requestId)
    if (reason === undefined) return next(e)
    const { Box, Text } = $.ui.resolve(e)
    return h(Box, { flexDirection: 'column' }, await next(e), h(Text, { color: 'warning' }, `  Corral: ${reason.split(/\n|\. /)[0]}`))
  })
}
