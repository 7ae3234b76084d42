//! Cores against what somebody else knows of them: the runtime's own dump of the same moment.

mod damage;
mod dumps;
mod evidence;
mod fresh;
mod locks;
mod native;
mod oracle;
mod programs;
