//! DSA keys as Go's `crypto/dsa` makes them (2048 and 256 bits, FIPS 186-3): nothing signs with them, but
//! `genPrivateKey "dsa"` writes them.

use num_bigint::BigUint;

use super::Source;
use super::der::{INTEGER, from_pem, integer, read, read_all, sequence, to_pem};
use crate::template::go::func::CallError;
use crate::template::go::meter;

const LABEL: &str = "DSA PRIVATE KEY";
const MODULUS_BITS: u64 = 2048;
const ORDER_BITS: u64 = 256;
/// Rounds of Miller and Rabin. The candidates are random, so a few make an error as good as impossible.
const ROUNDS: usize = 8;

/// A new key in PEM, with parameters of its own. The search for primes isn't on a render's clock.
pub(super) fn generate(source: &mut Source) -> Result<String, CallError> {
    meter::off_the_clock(|| search(source))
}

fn search(source: &mut Source) -> Result<String, CallError> {
    let sieve = small_primes(5_000);
    let one = BigUint::from(1u8);
    let (order, modulus) = loop {
        let mut order = bits(source, ORDER_BITS)?;
        order.set_bit(0, true);
        order.set_bit(ORDER_BITS - 1, true);
        if !is_prime(&order, &sieve) {
            continue;
        }
        // Go gives an order up after so many moduli.
        if let Some(modulus) = modulus(source, &order, &sieve, 4 * MODULUS_BITS)? {
            break (order, modulus);
        }
    };
    let exponent = (&modulus - &one) / &order;
    let generator = (2u8..)
        .map(|base| BigUint::from(base).modpow(&exponent, &modulus))
        .find(|generator| *generator != one)
        .ok_or("no generator")?;
    let private = loop {
        let private = bits(source, ORDER_BITS)?;
        if private != BigUint::ZERO && private < order {
            break private;
        }
    };
    let public = generator.modpow(&private, &modulus);
    let numbers = [&modulus, &order, &generator, &public, &private].map(|n| integer(&n.to_bytes_be()));
    let parts: Vec<&[u8]> = std::iter::once(&[INTEGER, 1, 0][..])
        .chain(numbers.iter().map(Vec::as_slice))
        .collect();
    Ok(to_pem(LABEL, &sequence(&parts)))
}

/// A prime that is one more than a multiple of the order.
fn modulus(source: &mut Source, order: &BigUint, sieve: &[u32], tries: u64) -> Result<Option<BigUint>, CallError> {
    let twice = order * 2u8;
    for _ in 0..tries {
        let mut candidate = bits(source, MODULUS_BITS)?;
        candidate.set_bit(0, true);
        candidate.set_bit(MODULUS_BITS - 1, true);
        let above = &candidate % &twice;
        candidate = candidate - above + 1u8;
        if candidate.bits() == MODULUS_BITS && is_prime(&candidate, sieve) {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Whether the text is a key as [`generate`] writes it: its numbers have their sizes and belong together.
pub(super) fn is_key(text: &str) -> bool {
    let numbers = || {
        let (label, der) = from_pem(text.as_bytes())?;
        let (outer, rest) = read(&der)?;
        let numbers: Vec<BigUint> = read_all(outer.content)?
            .iter()
            .map(|element| (element.tag == INTEGER).then(|| BigUint::from_bytes_be(element.content)))
            .collect::<Option<_>>()?;
        (rest.is_empty() && label == LABEL && to_pem(&label, &der) == text).then_some(numbers)
    };
    let Some([version, modulus, order, generator, public, private]) =
        numbers().and_then(|numbers| <[BigUint; 6]>::try_from(numbers).ok())
    else {
        return false;
    };
    let (zero, one) = (BigUint::ZERO, BigUint::from(1u8));
    version == zero
        && modulus.bits() == MODULUS_BITS
        && order.bits() == ORDER_BITS
        && (&modulus - &one) % &order == zero
        && private != zero
        && private < order
        && generator > one
        && generator.modpow(&order, &modulus) == one
        && generator.modpow(&private, &modulus) == public
}

/// A number of at most so many bits, a multiple of 8.
fn bits(source: &mut Source, count: u64) -> Result<BigUint, CallError> {
    let mut bytes = vec![0; (count / 8) as usize];
    source.fill(&mut bytes)?;
    Ok(BigUint::from_bytes_be(&bytes))
}

fn small_primes(below: u32) -> Vec<u32> {
    let mut primes: Vec<u32> = Vec::new();
    for n in 2..below {
        if primes.iter().take_while(|p| *p * *p <= n).all(|p| n % p != 0) {
            primes.push(n);
        }
    }
    primes
}

/// Miller and Rabin's test with small bases, after a division by the primes of `sieve`. For large odd numbers.
fn is_prime(n: &BigUint, sieve: &[u32]) -> bool {
    if sieve.iter().any(|prime| n % *prime == BigUint::ZERO) {
        return false;
    }
    let one = BigUint::from(1u8);
    let before = n - &one;
    let twos = before.trailing_zeros().unwrap_or(0);
    let odd = &before >> twos;
    sieve.iter().take(ROUNDS).all(|base| {
        let mut power = BigUint::from(*base).modpow(&odd, n);
        if power == one || power == before {
            return true;
        }
        (1..twos).any(|_| {
            power = &power * &power % n;
            power == before
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_told_from_other_numbers() {
        let sieve = small_primes(100);
        assert_eq!((sieve.len(), sieve.last()), (25, Some(&97)));
        let prime = |text: &str| is_prime(&text.parse().expect("a number"), &sieve);
        // The Mersenne numbers of 127 and 521 are prime, that of 257 isn't; 101 * 103 and a Carmichael number neither.
        let mersenne = |n: u32| ((BigUint::from(1u8) << n) - 1u8).to_string();
        assert!(prime(&mersenne(127)) && prime(&mersenne(521)));
        assert!(!prime(&mersenne(257)) && !prime("10403") && !prime("1590231231043178376951698401"));
    }

    #[test]
    fn a_key_is_one_and_a_changed_one_is_not() {
        let clock = jiff::Timestamp::UNIX_EPOCH;
        let key = generate(&mut Source::seeded(clock, [1; 32])).expect("a key");
        assert!(is_key(&key));
        assert_eq!(key, generate(&mut Source::seeded(clock, [1; 32])).expect("a key"));
        let (_, mut der) = from_pem(key.as_bytes()).expect("PEM");
        let last = der.len() - 1;
        der[last] ^= 1;
        for other in [
            to_pem(LABEL, &der),
            format!("{key}a: b"),
            key.replace("DSA", "RSA"),
            String::new(),
        ] {
            assert!(!is_key(&other), "{other}");
        }
    }
}
