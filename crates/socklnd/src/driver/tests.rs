//! Whole drivers: two of them connected, and one against scripted peers. The names `r_*`, `a*`,
//! `b*` and `f*` are those of the captures of real nodes whose behaviour is repeated.

mod chaos;
mod dialling;
mod exchange;
mod golden;
mod poll;
mod races;
mod rogue;
mod strangers;
mod time;
mod zero_copy;
