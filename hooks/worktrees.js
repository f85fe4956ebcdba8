// Worktrees: the daemon gives them, says what they hold, and takes them back once that is saved.

import { ask, find, forget, runHook } from './daemon.js'

const PATIENCE_MS = 280000 // as hook.py's; the setup commands of a worktree take their time
const OURS = 'corral'
const REFUSED = 3 // as hook.py ends where Corral gives none

async function owner($, event, fields) {
  const { vcs } = (await find($)) ? await ask($, event, fields, PATIENCE_MS) : {}
  return vcs
}

const isolate = ($, { name, from, agentId }) => owner($, 'VcsIsolate', { name, cwd: from, owner: agentId ?? '' })

/** Have hook.py start the daemon, which gives the same worktree again; one made beside it would split the work of one name. */
async function isolateLate($, e, next) {
  if (next.called) return next(e)
  forget()
  const done = await runHook($, 'WorktreeCreate', { name: e.name, cwd: e.from }, PATIENCE_MS).catch(() => ({}))
  if (done.exitCode === REFUSED) return { deny: done.stderr.trim() }
  return (done.exitCode === 0 && await isolate($, e)) || next(e)
}

export function worktrees(on) {
  on('vcs.isolate', async ($, e, next) => (await isolate($, e)) ?? next(e)).catch(isolateLate)

  on('vcs.status', { vcs: OURS }, async ($, e, next) => {
    const { path, name, since } = e
    return (await owner($, 'VcsStatus', { path, name, since })) ?? next(e)
  })

  on('vcs.release', { vcs: OURS }, async ($, e, next) => {
    const { path, name, isDiscard, reason } = e
    return (await owner($, 'VcsRelease', { path, name, is_discard: isDiscard, reason })) ?? next(e)
  }).catch(() => ({ kept: 'Corral does not answer, so nothing is removed. `corral worktree list` shows it.' }))
}
