//! Passwords and symmetric encryption.

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::iv::FixedLength;
use data_encoding::BASE64;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::limit;
use crate::sprig::encoding::decode_base64;
use crate::sprig::random::draw;
use crate::sprig::{Call, Env, RandomSource};
use go_template::func::{CallError, Func, Given};
use go_template::value::Str;

pub(crate) fn table<C: Env>() -> Vec<Func<C>> {
    vec![
        Func::with_context("bcrypt", |env: &mut C, given: Given, password: &[u8]| {
            bcrypt_hash(env, env.call("bcrypt", given.0)?, password)
        }),
        Func::with_context("htpasswd", htpasswd),
        Func::with_context("encryptAES", encrypt_aes),
        Func::new("decryptAES", decrypt_aes),
        Func::with_context(
            "derivePassword",
            |env: &mut C, counter: u32, kind: &[u8], password: &[u8], user: &[u8], site: &[u8]| {
                env.burn(DERIVATION)?;
                derive_password(counter, kind, password, user, site)
            },
        ),
    ]
}

const BCRYPT_COST: u32 = 10;
/// The lowest cost, for results that are only looked at.
const STAND_IN_COST: u32 = 4;
/// Go's bcrypt refuses longer passwords.
const BCRYPT_MAX: usize = 72;
const BLOCK: usize = 16;
/// The cost of slow functions, in steps of the evaluator that take about as long.
const HASH: u64 = 200_000;
const DERIVATION: u64 = 500_000;

/// A `$2a$10$` hash; sprig returns an error's text in its place.
fn bcrypt_hash<C: Env>(env: &mut C, call: Call, password: &[u8]) -> Result<String, CallError> {
    if password.len() > BCRYPT_MAX {
        return Ok("failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".to_owned());
    }
    let make = |source: &mut RandomSource| {
        let mut salt = [0u8; 16];
        source.fill(&mut salt)?;
        let cost = if source.shared_keys().is_some() {
            STAND_IN_COST
        } else {
            BCRYPT_COST
        };
        Ok(match bcrypt::hash_with_salt(password, cost, salt) {
            Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
            Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
        })
    };
    draw::text(env, &call.costing(HASH), is_bcrypt, make)
}

/// Whether the text has the form of a hash. That it is the password's would take as long as a new one.
fn is_bcrypt(text: &str) -> bool {
    let digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
    text.strip_prefix("$2a$10$")
        .is_some_and(|rest| rest.len() == 53 && rest.bytes().all(digit))
}

fn htpasswd<C: Env>(env: &mut C, given: Given, user: &[u8], password: &[u8]) -> Result<Vec<u8>, CallError> {
    if user.contains(&b':') {
        return Ok([b"invalid username: ", user].concat());
    }
    let hash = bcrypt_hash(env, env.call("htpasswd", given.0)?, password)?;
    Ok([user, b":", hash.as_bytes()].concat())
}

/// AES-256 with the password as key, cut or padded with zeros.
fn cipher_key(password: &[u8]) -> Result<UnboundCipherKey, Unspecified> {
    let mut key = [0u8; 32];
    for (slot, byte) in key.iter_mut().zip(password) {
        *slot = *byte;
    }
    UnboundCipherKey::new(&AES_256, &key)
}

/// CBC with PKCS#7 padding, the random initial block in front, in base64.
fn encrypt_aes<C: Env>(env: &mut C, given: Given, password: &[u8], text: &[u8]) -> Result<String, CallError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    limit::bytes(env.meter(), text.len().saturating_mul(2))?;
    let fits = |kept: &str| decrypt_aes(password, kept.as_bytes()).is_ok_and(|found| *found == *text);
    let make = |source: &mut RandomSource| {
        let mut start = [0u8; BLOCK];
        source.fill(&mut start)?;
        encrypt(password, text, start).map_err(|_| CallError::from("encryptAES: the text can't be encrypted"))
    };
    let call = env.call("encryptAES", given.0)?.costing(text.len() as u64 / 64);
    draw::text(env, &call, fits, make)
}

fn encrypt(password: &[u8], text: &[u8], start: [u8; BLOCK]) -> Result<String, Unspecified> {
    let mut blocks = text.to_vec();
    let cipher = PaddedBlockEncryptingKey::cbc_pkcs7(cipher_key(password)?)?;
    cipher.less_safe_encrypt(&mut blocks, EncryptionContext::Iv128(FixedLength::from(start)))?;
    Ok(BASE64.encode(&[&start[..], &blocks].concat()))
}

fn decrypt_aes(password: &[u8], text: &[u8]) -> Result<Str, CallError> {
    if text.is_empty() {
        return Ok(Str::from(""));
    }
    let mut data = decode_base64(text)?;
    let mut decrypted = || {
        let (start, blocks) = data.split_first_chunk_mut::<BLOCK>().ok_or(Unspecified)?;
        let cipher = PaddedBlockDecryptingKey::cbc_pkcs7(cipher_key(password)?)?;
        let found = cipher.decrypt(blocks, DecryptionContext::Iv128(FixedLength::from(*start)))?;
        Ok::<_, Unspecified>(Str::from(&*found))
    };
    decrypted().map_err(|_| CallError::from("decryptAES: the text was not encrypted with that password"))
}

/// Patterns of the Master Password algorithm, a letter per class of characters.
fn templates(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        #[rustfmt::skip]
        b"long" => &[
            "CvcvnoCvcvCvcv", "CvcvCvcvnoCvcv", "CvcvCvcvCvcvno", "CvccnoCvcvCvcv", "CvccCvcvnoCvcv", "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv", "CvcvCvccnoCvcv", "CvcvCvccCvcvno", "CvcvnoCvcvCvcc", "CvcvCvcvnoCvcc", "CvcvCvcvCvccno",
            "CvccnoCvccCvcv", "CvccCvccnoCvcv", "CvccCvccCvcvno", "CvcvnoCvccCvcc", "CvcvCvccnoCvcc", "CvcvCvccCvccno",
            "CvccnoCvcvCvcc", "CvccCvcvnoCvcc", "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

fn characters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn derive_password(counter: u32, kind: &[u8], password: &[u8], user: &[u8], site: &[u8]) -> Result<Vec<u8>, CallError> {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let Some(templates) = templates(kind) else {
        return Ok([b"cannot find password template ", kind].concat());
    };
    let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
    let salt = [SEED, &length(user), user].concat();
    let failed = |error: &dyn std::fmt::Display| CallError::Text(format!("failed to derive password: {error}"));
    let params = scrypt::Params::new(15, 8, 2).map_err(|error| failed(&error))?;
    let mut key = [0u8; 64];
    scrypt::scrypt(password, &salt, &params, &mut key).map_err(|error| failed(&error))?;
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&key).map_err(|error| failed(&error))?;
    mac.update(&[SEED, &length(site), site, &counter.to_be_bytes()].concat());
    let seed = mac.finalize().into_bytes();
    let pick = |from: &'static [u8], seed: u8| from.get(usize::from(seed) % from.len()).copied().unwrap_or(b'0');
    let first = seed.first().copied().unwrap_or(0);
    let template = templates
        .get(usize::from(first) % templates.len())
        .copied()
        .unwrap_or_default();
    let letters = template
        .bytes()
        .zip(seed.iter().skip(1))
        .map(|(class, seed)| pick(characters(class), *seed));
    Ok(letters.collect())
}
