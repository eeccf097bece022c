//! Lists of small numbers as text, as the kernel writes sets of CPUs (`0-3,8`), with LNet's strides
//! (`0-14/2`, [CPT-4]).

/// Largest number in a list, so that a short text cannot use much memory. It is larger than the
/// number of CPUs of any Linux kernel.
const NUMBER_MAX: u32 = 0xffff;

/// The text is not a list of numbers up to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadList;

/// The numbers of a list, in ascending order, each once. White space around them is ignored.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>, BadList> {
    let mut numbers = Vec::new();
    for item in text.split(',') {
        let (range, stride) = match item.split_once('/') {
            Some((range, stride)) => (range, number(stride)?),
            None => (item, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(range)?, number(range)?),
        };
        if first > last || stride == 0 {
            return Err(BadList);
        }
        numbers.extend((first..=last).step_by(stride as usize));
        if numbers.len() > NUMBER_MAX as usize {
            // A longer list repeats numbers.
            numbers.sort_unstable();
            numbers.dedup();
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

fn number(text: &str) -> Result<u32, BadList> {
    let text = text.trim();
    // `parse` would accept a sign as well.
    let number = text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    number.filter(|&number| number <= NUMBER_MAX).ok_or(BadList)
}

#[cfg(test)]
mod tests;
