// Worktrees: the daemon gives them, says what they hold, and takes them back once that is saved.

import { ask, find } from './daemon.js'

const PATIENCE_MS = 280000 // as hook.py's; the setup commands of a worktree take their time
const OURS = 'corral'

async function owner($, event, fields) {
  const { vcs } = (await find($)) ? await ask($, event, fields, PATIENCE_MS) : {}
  return vcs
}

export function worktrees(on) {
  on('vcs.isolate', async ($, e, next) => {
    const { name, from, agentId } = e
    return (await owner($, 'VcsIsolate', { name, cwd: from, owner: agentId ?? '' })) ?? next(e)
  })

  on('vcs.status', { vcs: OURS }, async ($, e, next) => {
    const { path, name, since } = e
    return (await owner($, 'VcsStatus', { path, name, since })) ?? next(e)
  })

  on('vcs.release', { vcs: OURS }, async ($, e, next) => {
    const { path, name, isDiscard, reason } = e
    return (await owner($, 'VcsRelease', { path, name, is_discard: isDiscard, reason })) ?? next(e)
  }).catch(() => ({ kept: 'Corral does not answer, so nothing is removed. `corral worktree list` shows it.' }))
}
